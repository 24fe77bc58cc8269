"""The database: one interface, SQLite and PostgreSQL behind it."""

from controller.database.failures import LeaseLostError
from controller.database.interface import (
    Database,
    DatabaseAddress,
    DatabaseInUseError,
    DatabaseUnusableError,
)
from controller.database.postgresql import (
    POOLED,
    Fence,
    PostgresDatabase,
    PostgresSession,
    server_of,
    upgrade_schema,
)
from controller.database.sqlite import SqliteDatabase

__all__ = [
    "POOLED",
    "Database",
    "DatabaseAddress",
    "DatabaseInUseError",
    "DatabaseUnusableError",
    "Fence",
    "LeaseLostError",
    "PostgresDatabase",
    "PostgresSession",
    "SqliteDatabase",
    "server_of",
    "upgrade_database",
]


def upgrade_database(url: str) -> str:
    """Bring the schema of a database up to date, and return its name; see `open_right`."""
    address = DatabaseAddress.parse(url)
    if address.is_sqlite:
        database = SqliteDatabase(address)
        database.close()
        return database.name
    upgrade_schema(address)
    return str(address)
