"""The streams in memory: what may happen to them, decided inside a batch."""
