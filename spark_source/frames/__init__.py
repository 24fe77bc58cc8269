"""DataFrames of streams: their watermark, late rows, and where they are written to."""
