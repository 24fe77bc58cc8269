"""Databases of both kinds, opened as a controller does, but held by nobody."""

from controller.database import Database, DatabaseAddress, PostgresDatabase, SqliteDatabase


def open_database(url: str) -> Database:
    """Open a database; its caller closes it."""
    address = DatabaseAddress.parse(url)
    return SqliteDatabase(address) if address.is_sqlite else PostgresDatabase(address)
