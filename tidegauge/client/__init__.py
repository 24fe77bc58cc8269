"""The HTTP runtime of the clients."""
