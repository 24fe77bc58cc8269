"""The database: one interface, SQLite and PostgreSQL behind it."""

from controller.database.failures import LeaseLostError
from controller.database.interface import (
    Database,
    DatabaseAddress,
    DatabaseInUseError,
    DatabaseUnusableError,
)
from controller.database.postgresql import PostgresDatabase, upgrade_schema
from controller.database.sqlite import SqliteDatabase

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


def open_database(url: str, *, max_bytes: int = 0) -> Database:
    """Open a database to serve it; ``max_bytes`` bounds the size of an SQLite file, 0 does not.

    Raises `DatabaseInUseError` if another process serves it, and `DatabaseUnusableError` if the
    address cannot be served, or the schema is of another version.
    """
    address = DatabaseAddress.parse(url)
    if address.is_sqlite:
        return SqliteDatabase(address, max_bytes=max_bytes)
    if max_bytes:
        msg = f"{address}: the size of a PostgreSQL database is bounded there, not here"
        raise DatabaseUnusableError(msg)
    return PostgresDatabase(address)


def upgrade_database(url: str) -> str:
    """Bring the schema of a database up to date, and return its name; raises as `open_database`."""
    address = DatabaseAddress.parse(url)
    if address.is_sqlite:
        database = SqliteDatabase(address)
        database.close()
        return database.name
    upgrade_schema(address)
    return str(address)
