"""Why the watermark is where it is, for operators."""
