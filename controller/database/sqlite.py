"""SQLite: durable settings, one writer, an operating system's lock."""

import errno
import fcntl
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, select
from sqlalchemy.exc import DBAPIError, OperationalError

from controller.database import migration
from controller.database.interface import (
    READERS,
    Database,
    DatabaseAddress,
    DatabaseInUseError,
    DatabaseUnusableError,
)
from controller.schema import identity

_T = TypeVar("_T")
_PAGE_BYTES = 4_096  # of SQLite, by default
_CHECKPOINT_PAGES = 1_000  # 4 MB of log are written into the file, as SQLite does
_CACHED_STATEMENTS = 512  # of many rows each count has a text of its own
_MANY = 256  # short rows: more would hold the event loop, see `write`
_QUICK_S = 0.003  # a disk that takes longer is slow: changing hands costs less than its wait
_BUSY_MS = 10_000  # a backup, or a query by hand, may lock it so long
_log = logging.getLogger(__name__)


class SqliteDatabase(Database):
    """One file, held by this process until `close`, and brought up to date when it is opened.

    It refuses to grow beyond ``max_bytes``; 0 is no limit.
    """

    stored_id = ""

    def __init__(self, address: DatabaseAddress, *, max_bytes: int = 0) -> None:
        path = Path(address.url.database or "").resolve()
        if not path.parent.is_dir():
            msg = f"{path} cannot be made: the directory {path.parent} does not exist"
            raise DatabaseUnusableError(msg)
        self._lock = _lock(path)
        self._max_pages = max_bytes // _PAGE_BYTES
        self._is_quick = False
        super().__init__(str(path), self._make_engine(f"sqlite:///{path}"))
        try:
            if not self._can_share():
                _log.warning("the disk is full: no other process can read %s meanwhile", path)
                self._engine.dispose()
                # So SQLite keeps its index in memory, for this process alone.
                query = {"uri": "true", "vfs": "unix-excl"}
                unshared = URL.create("sqlite", database=path.as_uri(), query=query)
                self._engine = self._make_engine(unshared)
            self._prepare()
            self._connection = self._engine.connect()
            self._path, self._identity = path, _identity(path)
        except BaseException:
            self._lock.close()
            raise

    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:
        """Run one transaction; see `Database.write`.

        A few rows are written on the event loop itself while the disk answers within a
        millisecond or two, since waking a thread and changing hands would take longer; a slow
        disk, or many rows, never hold the loop.
        """
        if rows < _MANY and self._is_quick and self._writer.is_free:
            with self._failures.translated():
                try:
                    self._transaction(work)
                except OperationalError as error:
                    if getattr(error.orig, "sqlite_errorcode", None) != sqlite3.SQLITE_BUSY:
                        raise
                    # Another process has a lock: the event loop is no place to wait for it.
                    self._set_quick(is_quick=False)
                else:
                    return
        await self.change(work)

    async def change(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction in the writer's thread; see `Database.change`."""
        with self._failures.translated():
            return await self._writer.run(partial(self._transaction, work))

    def check(self, connection: Connection) -> None:
        """Check that the file is still there and its schema fits; see `Database.check`."""
        if _identity(self._path) != self._identity:
            msg = f"{self.name} was removed or replaced while it was served"
            raise DatabaseUnusableError(msg)
        migration.check_newest(connection, self.name)

    def close(self) -> None:
        """Finish what runs, and give the file back."""
        self._connection.close()
        super().close()
        self._lock.close()

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        began = perf_counter()
        try:
            with self._connection.begin():
                return work(self._connection)
        finally:
            self._set_quick(is_quick=perf_counter() - began < _QUICK_S)

    def _set_quick(self, *, is_quick: bool) -> None:
        """Decide where the next short transaction runs; in the thread it may wait for a lock."""
        if is_quick is not self._is_quick:
            self._is_quick = is_quick
            raw: Any = self._connection.connection.driver_connection
            raw.execute(f"PRAGMA busy_timeout={0 if is_quick else _BUSY_MS}")

    def _make_engine(self, url: str | URL) -> Engine:
        engine = create_engine(
            url,
            pool_size=READERS + 1,
            connect_args={"cached_statements": _CACHED_STATEMENTS, "check_same_thread": False},
        )

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 (a DBAPI type)
            connection.isolation_level = None
            with _closing_on_error(connection):
                connection.execute(f"PRAGMA busy_timeout={_BUSY_MS}")
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=FULL")
                connection.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
                if self._max_pages:
                    connection.execute(f"PRAGMA max_page_count={self._max_pages}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.connection.cursor().execute("BEGIN")

        return engine

    def _can_share(self) -> bool:
        """Return whether the disk has space for the index that processes share."""
        try:
            with self._engine.connect():
                return True
        except DBAPIError as error:
            # Whatever else is wrong is found, and reported, when the schema is read.
            code = getattr(error.orig, "sqlite_errorcode", None)
            return code != sqlite3.SQLITE_IOERR_SHMSIZE

    def _prepare(self) -> None:
        try:
            with self._engine.begin() as connection:
                migration.upgrade(connection, self.name)
                self.stored_id = connection.execute(select(identity.c.id)).scalar_one()
        except DBAPIError as error:
            msg = f"{self.name} cannot be used as a database: {error.orig}"
            raise DatabaseUnusableError(msg) from error


def _identity(path: Path) -> tuple[int, int] | None:
    """Return what distinguishes a file from another one in its place; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


@contextmanager
def _closing_on_error(descriptor: Any) -> Iterator[None]:  # noqa: ANN401 (a file)
    try:
        yield
    except BaseException:
        descriptor.close()
        raise


def _lock(path: Path) -> Any:  # noqa: ANN401 (a file)
    """Lock the file's neighbour; the system gives the lock back even after kill -9."""
    lock = path.with_name(path.name + ".lock").open("a+")
    with _closing_on_error(lock):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            raise DatabaseInUseError(str(path), holder) from error
        lock.truncate(0)
        try:
            os.write(lock.fileno(), str(os.getpid()).encode())
        except OSError as error:
            # On a full disk the lock holds all the same; only its holder is not named.
            if error.errno != errno.ENOSPC:
                raise
    return lock
