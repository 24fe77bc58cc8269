"""The HTTP edge: handlers ask the service and return messages."""
