"""The SQLite database: durable settings, one writer thread, an operating system's lock."""

import asyncio
import fcntl
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from controller.schema import SCHEMA_VERSION, metadata
from controller.turnstile import Turnstile
from tidegauge.errors import TidegaugeError, UnavailableError

_T = TypeVar("_T")
_PAGE_BYTES = 4_096
_READERS = 4
_CHECKPOINT_PAGES = 1_000
_CACHED_STATEMENTS = 512
_MANY = 256
_QUICK_S = 0.003


class DatabaseInUseError(TidegaugeError):
    """Another process serves the same file."""

    def __init__(self, path: Path, holder: str) -> None:
        self.path = path
        self.holder = holder
        super().__init__(
            f"{path} is served by process {holder}; stop it first, or name another database"
        )


class DatabaseUnusableError(TidegaugeError):
    """The database cannot be served: its address, its place or its schema does not fit."""


class Database:
    """One SQLite file, held by this process until `close`.

    Writes go one after another, through one thread unless they are short; reads have a few
    threads of their own and see what is committed.

    Parameters
    ----------
    url
        ``sqlite:///PATH``.
    max_bytes
        Refuse to grow beyond it; 0 for no limit.

    Raises
    ------
    DatabaseInUseError
        If another process serves the file.
    DatabaseUnusableError
        If the address is no SQLite file, or its schema is of another version.
    """

    def __init__(self, url: str, *, max_bytes: int = 0) -> None:
        self.path = _path_of(url)
        self._lock = _lock(self.path)
        self._max_pages = max_bytes // _PAGE_BYTES
        self._writer = Turnstile("database-writer")
        self._is_quick = False
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="database-reader")
        self.engine = self._engine()
        try:
            self._prepare()
            self._connection = self.engine.connect()
        except BaseException:
            self._lock.close()
            raise

    async def write(self, work: Callable[[Connection], _T], *, rows: int = _MANY) -> _T:
        """Run one transaction.

        Parameters
        ----------
        work
            What is to be written.
        rows
            Roughly how many short rows. A few are written on the event loop itself while the
            disk answers within a millisecond or two, since waking a thread and changing hands
            would take longer; a slow disk, or many rows, never hold the loop.

        Raises
        ------
        UnavailableError
            If the database refuses; nothing is stored then.
        """
        transaction = partial(self._transaction, work)
        with _unavailable():
            if rows < _MANY and self._is_quick and self._writer.is_free:
                return transaction()
            return await self._writer.pass_through(transaction)

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Read what is committed, in a reader thread; see `write` for errors."""
        loop = asyncio.get_running_loop()
        with _unavailable():
            return await loop.run_in_executor(self._readers, lambda: self._reading(work))

    def close(self) -> None:
        """Finish what runs, and give the file back."""
        self._writer.close()
        self._readers.shutdown()
        self._connection.close()
        self.engine.dispose()
        self._lock.close()

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        began = perf_counter()
        try:
            with self._connection.begin():
                return work(self._connection)
        finally:
            self._is_quick = perf_counter() - began < _QUICK_S

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self.engine.connect() as connection:
            return work(connection)

    def _engine(self) -> Engine:
        engine = create_engine(
            f"sqlite:///{self.path}",
            pool_size=_READERS + 1,
            connect_args={
                "cached_statements": _CACHED_STATEMENTS,
                "check_same_thread": False,
            },
        )

        @event.listens_for(engine, "connect")
        def prepare(connection: Any, _record: object) -> None:  # noqa: ANN401 (a DBAPI type)
            connection.isolation_level = None
            for pragma in self._pragmas():
                connection.execute(f"PRAGMA {pragma}")

        @event.listens_for(engine, "begin")
        def begin(connection: Connection) -> None:
            connection.connection.cursor().execute("BEGIN")

        return engine

    def _pragmas(self) -> Iterator[str]:
        yield "busy_timeout=10000"
        yield "journal_mode=WAL"
        yield "synchronous=FULL"
        yield f"wal_autocheckpoint={_CHECKPOINT_PAGES}"
        if self._max_pages:
            yield f"max_page_count={self._max_pages}"

    def _prepare(self) -> None:
        try:
            with self.engine.begin() as connection:
                version = connection.exec_driver_sql("PRAGMA user_version").scalar_one()
                if version == 0:
                    metadata.create_all(connection)
                    connection.exec_driver_sql(f"PRAGMA user_version={SCHEMA_VERSION}")
                elif version != SCHEMA_VERSION:
                    msg = (
                        f"{self.path} has schema version {version}, this is for "
                        f"{SCHEMA_VERSION}; use the version of Tidegauge that made it"
                    )
                    raise DatabaseUnusableError(msg)
        except DBAPIError as error:
            msg = f"{self.path} cannot be used as a database: {error.orig}"
            raise DatabaseUnusableError(msg) from error


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        reason = f"the database says: {error.orig}"
        raise UnavailableError(reason) from error


def _path_of(url: str) -> Path:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        msg = f"{url!r} is no database address; write sqlite:///PATH"
        raise DatabaseUnusableError(msg) from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        msg = f"{url!r} cannot be served; write sqlite:///PATH"
        raise DatabaseUnusableError(msg)
    path = Path(parsed.database).resolve()
    if not path.parent.is_dir():
        msg = f"{path} cannot be made: the directory {path.parent} does not exist"
        raise DatabaseUnusableError(msg)
    return path


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
            raise DatabaseInUseError(path, lock.read().strip() or "unknown") from error
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
    return lock
