"""The service: aggregation made durable, the embedded log, and their HTTP API."""

from controller.configuration import ServeSettings
from controller.database import DatabaseInUseError, DatabaseUnusableError, upgrade_database
from controller.serving.server import serve

__all__ = [
    "DatabaseInUseError",
    "DatabaseUnusableError",
    "ServeSettings",
    "serve",
    "upgrade_database",
]
