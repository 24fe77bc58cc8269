"""The log: its form, and lines that are told once."""
