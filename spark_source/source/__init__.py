"""Planning and reading micro-batches of a stream."""
