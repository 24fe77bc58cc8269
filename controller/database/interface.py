"""Where a database is, and what the service asks of it: transactions that write, and reads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError

from controller.database.failures import Failures
from controller.database.writer_thread import WriterThread
from tidegauge.errors import TidegaugeError

_FORMS = "write sqlite:///PATH or postgresql://USER@HOST/NAME"
READERS = 4  # few: all threads share the lock of the interpreter
_T = TypeVar("_T")


class DatabaseInUseError(TidegaugeError):
    """Another process serves the same database."""

    def __init__(self, database: str, holder: str) -> None:
        self.database = database
        self.holder = holder
        super().__init__(
            f"{database} is served by process {holder}; stop it first, or name another database"
        )


class DatabaseUnusableError(TidegaugeError):
    """The database cannot be served: its address, its place or its schema does not fit."""


@dataclass(frozen=True, slots=True)
class DatabaseAddress:
    """Where a database is; its text is safe to show, since it leaves out the password."""

    url: URL

    @classmethod
    def parse(cls, text: str) -> "DatabaseAddress":
        """Read an address; one that cannot be served is not repeated: it may hold a password."""
        try:
            url = make_url(text)
        except (ArgumentError, ValueError):
            msg = f"the database address cannot be read; {_FORMS}"
            raise DatabaseUnusableError(msg) from None
        backend = url.get_backend_name()
        if backend in {"postgresql", "postgres"}:
            return cls(url.set(drivername="postgresql+psycopg"))
        if backend != "sqlite" or not url.database:
            msg = f"a {backend} database at this address cannot be served; {_FORMS}"
            raise DatabaseUnusableError(msg)
        return cls(url)

    @property
    def is_sqlite(self) -> bool:
        """Whether it is a file of SQLite."""
        return self.url.get_backend_name() == "sqlite"

    def __repr__(self) -> str:
        return f"DatabaseAddress({self})"

    def __str__(self) -> str:
        if self.is_sqlite:
            return f"sqlite:///{self.url.database}"
        places = {one: self.url.query[one] for one in ("host", "port") if one in self.url.query}
        shown = self.url.set(drivername="postgresql", query=places)._replace(password=None)
        return shown.render_as_string().replace("%2F", "/")


class Database(ABC):
    """One database, used by this process until `close`.

    Writes go one after another; reads have a few threads of their own and see what is
    committed. Its ``name``, for messages, is without a password.
    """

    def __init__(self, name: str, readers: Engine) -> None:
        self.name = name
        self.timeout_s = inf
        """How long a caller waits for an answer before it gets the error that the database is away."""
        self._engine = readers
        self._failures = Failures()
        self._writer = self._make_writer("database-writer")
        self._readers = self._make_readers()

    @abstractmethod
    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:
        """Run one transaction that writes roughly so many short rows, and reads no results.

        Raises `UnavailableError` if the database refuses or is away, and `OutcomeUnknownError` if
        it was lost before it answered.
        """

    @abstractmethod
    async def change(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction that may read before it writes; see `write` for errors."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Check, in a read, that the database and its schema still are what was opened."""

    async def read(self, work: Callable[[Connection], _T], *, patient: bool = False) -> _T:  # noqa: ARG002 (for those that may be stuck)
        """Read what is committed, as of one moment, in a reader thread; errors as in `write`.

        No caller waits longer than `timeout_s`, except a ``patient`` one, since there is much to
        be read and no caller to be answered.
        """
        loop = asyncio.get_running_loop()
        with self._failures.translated(writes=False):
            return await loop.run_in_executor(self._readers, partial(self._reading, work))

    def give_up(self) -> None:  # noqa: B027 (what is stuck in a file system cannot be cut off)
        """Wait hardly any more for one that hangs, whatever it was asked: the service ends."""

    def close(self) -> None:
        """Finish what runs, and give the database back."""
        self._writer.close()
        self._readers.shutdown()
        self._engine.dispose()

    def _make_writer(self, name: str) -> WriterThread:
        return WriterThread(name)

    def _make_readers(self) -> Executor:
        return ThreadPoolExecutor(READERS, thread_name_prefix="database-reader")

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self._engine.connect() as connection:
            return work(connection)
