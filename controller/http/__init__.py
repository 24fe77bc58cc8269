"""The HTTP edge: handlers ask the parts of the service that they name, and return messages."""
