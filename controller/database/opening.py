"""From an address to its database."""

from controller.database.address import DatabaseAddress
from controller.database.interface import Database, DatabaseUnusableError
from controller.database.postgresql import PostgresDatabase, upgrade_schema
from controller.database.sqlite import SqliteDatabase


def open_database(url: str, *, max_bytes: int = 0) -> Database:
    """Open a database to serve it; ``max_bytes`` bounds the size of an SQLite file, 0 does not.

    Raises
    ------
    DatabaseInUseError
        If another process serves it.
    DatabaseUnusableError
        If the address cannot be served, or the schema is of another version.
    """
    address = DatabaseAddress.parse(url)
    if address.is_sqlite:
        return SqliteDatabase(address, max_bytes=max_bytes)
    if max_bytes:
        msg = f"{address}: the size of a PostgreSQL database is bounded there, not here"
        raise DatabaseUnusableError(msg)
    return PostgresDatabase(address)


def upgrade_database(url: str) -> str:
    """Bring the schema of a database up to date, and tell its name; errors of `open_database`."""
    address = DatabaseAddress.parse(url)
    if address.is_sqlite:
        database = SqliteDatabase(address)
        database.close()
        return database.name
    upgrade_schema(address)
    return str(address)
