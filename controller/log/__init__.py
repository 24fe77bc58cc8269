"""The embedded event log: segments as Arrow record batches in a chunk table."""
