"""The messages of the HTTP API, as pydantic models."""
