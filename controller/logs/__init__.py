"""The log: its form, and lines that are logged once."""
