"""The right to hold an SQLite file: an OS lock, which is gone even after kill -9.

It is the twin of `controller.cluster.lease`. A second process that serves the file refuses to start,
so nobody stands by, and nobody loses.
"""

import asyncio

from controller.database import Database, DatabaseUnusableError, SqliteDatabase


class FileLock:
    """The right of the process that has opened the file, from start to end."""

    holder = awaited = ""
    is_certain = True

    def __init__(self, database: SqliteDatabase) -> None:
        self.name, self.identity = database.name, database.stored_id
        self._database: Database | None = database

    async def acquire(self) -> None:
        """Do nothing: the file is locked; it is opened once."""
        if self._database is None:
            msg = f"{self.name} cannot be read back"
            raise DatabaseUnusableError(msg)

    async def keep(self) -> None:
        """Wait for ever: nobody takes it away."""
        await asyncio.Event().wait()

    async def open(self) -> Database:
        """Return the open database, which its caller closes."""
        assert self._database is not None  # noqa: S101 (`acquire` came before)
        database, self._database = self._database, None
        return database

    async def leave(self) -> None:
        """Do nothing: to close the database is to unlock it."""

    def close(self) -> None:
        """Close the database, unless somebody who opened it does."""
        if self._database is not None:
            self._database.close()
