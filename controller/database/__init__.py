"""The database: one interface, SQLite and PostgreSQL behind it."""

from controller.database.address import DatabaseAddress
from controller.database.failures import LeaseLostError
from controller.database.interface import (
    Database,
    DatabaseInUseError,
    DatabaseUnusableError,
)
from controller.database.opening import open_database, upgrade_database
from controller.database.postgresql import PostgresDatabase

__all__ = [
    "Database",
    "DatabaseAddress",
    "DatabaseInUseError",
    "DatabaseUnusableError",
    "LeaseLostError",
    "PostgresDatabase",
    "open_database",
    "upgrade_database",
]
