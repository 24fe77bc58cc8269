"""The right to hold the database: the lease of PostgreSQL, and its twin for SQLite's lock."""

from typing import TypeAlias

from controller.cluster.lease import Lease, open_lease
from controller.cluster.lock import FileLock
from controller.configuration import ServeSettings
from controller.database import DatabaseAddress, SqliteDatabase

__all__ = ["FileLock", "Lease", "Right", "open_right"]

Right: TypeAlias = Lease | FileLock


def open_right(settings: ServeSettings) -> Right:
    """Open the database that the settings name, so far as to stand by for it.

    Raises `DatabaseInUseError` if another process serves a file, and `DatabaseUnusableError` if the
    address cannot be served, or the schema is of another version.
    """
    address = DatabaseAddress.parse(settings.database_url)
    if address.is_sqlite:
        return FileLock(SqliteDatabase(address, max_bytes=settings.max_database_bytes))
    return open_lease(address, settings)
