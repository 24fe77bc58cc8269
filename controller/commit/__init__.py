"""Group commit: one order for all changes, and waiting for what they bring."""
