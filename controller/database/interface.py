"""What the service asks of a database: transactions that write, and reads."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TypeVar

from sqlalchemy import Connection, Engine

from controller.database.failures import Failures
from controller.database.writer_thread import WriterThread
from tidegauge.errors import TidegaugeError

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


class Database(ABC):
    """One database, used by this process until `close`.

    Writes go one after another; reads have a few threads of their own and see what is
    committed. Its ``name``, for messages, is without a password.
    """

    def __init__(self, name: str, readers: Engine) -> None:
        self.name = name
        self.timeout_s = inf
        """How long a caller waits for an answer before it is told that the database is away."""
        self._engine = readers
        self._failures = Failures()
        self._writer = WriterThread("database-writer")
        self._readers = ThreadPoolExecutor(READERS, thread_name_prefix="database-reader")

    @abstractmethod
    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:
        """Run one transaction that writes roughly so many short rows, and looks at no results.

        Raises `UnavailableError` if the database refuses or is away, and `OutcomeUnknownError` if
        it was lost before it answered.
        """

    @abstractmethod
    async def change(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction that may look before it writes; see `write` for errors."""

    @abstractmethod
    def check(self, connection: Connection) -> None:
        """Look, in a read, whether the database and its schema still are what was opened."""

    async def read(self, work: Callable[[Connection], _T], *, patient: bool = False) -> _T:  # noqa: ARG002 (for those that may be stuck)
        """Read what is committed, as of one moment, in a reader thread; errors as in `write`.

        Nobody waits longer than `timeout_s`, except who is ``patient``, since there is much to
        be read and no caller to be answered.
        """
        loop = asyncio.get_running_loop()
        with self._failures.translated(writes=False):
            return await loop.run_in_executor(self._readers, partial(self._reading, work))

    @abstractmethod
    def give_up(self) -> None:
        """Wait hardly any more for one that hangs, whatever it was asked: the service ends."""

    def close(self) -> None:
        """Finish what runs, and give the database back."""
        self._writer.close()
        self._readers.shutdown()
        self._engine.dispose()

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        with self._engine.connect() as connection:
            return work(connection)
