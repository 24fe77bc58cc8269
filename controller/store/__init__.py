"""Rows: all SQL but that of the event log."""
