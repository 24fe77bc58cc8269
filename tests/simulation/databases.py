"""How controllers use the disk: one by SQLite, several as if it were PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from typing import Any, Self, TypeVar
from unittest import mock

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import Pool, QueuePool

from controller.database import (
    Database,
    DatabaseAddress,
    PostgresDatabase,
    postgresql,
)
from controller.database.sqlite import SqliteDatabase
from controller.database.writer_thread import WriterThread
from tests.simulation.dialect import Speech
from tests.simulation.disk import Disk, Plan
from tests.simulation.kernel import current_node
from tests.simulation.threads import NoExecutor, SimulatedThread

_T = TypeVar("_T")
_ADDRESS = DatabaseAddress.parse("postgresql://simulated/simulated")


def open_disk(disk: Disk) -> Database:
    """Open the disk for a controller, in its own node."""
    return _Shared(disk) if disk.is_shared else _Sole(disk)


def _engine(disk: Disk, pool: type[Pool] = QueuePool) -> Engine:
    return create_engine("sqlite://", creator=lambda: disk.connection, poolclass=pool)


def _full() -> OperationalError:
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL
    return OperationalError("simulated", None, error)


class _Sole(SqliteDatabase):
    """The whole of SQLite but the file: its lock, its identity, and its busy time."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._is_quick = False
        self._plan: Plan | None = None
        engine = _engine(disk)
        event.listen(engine, "begin", _begin)
        Database.__init__(self, "the simulation", engine)
        self._connection = self._engine.connect()
        self._lock = _NoLock()

    def check(self, connection: Connection) -> None:
        """Find nothing wrong."""

    def _set_quick(self, *, is_quick: bool) -> None:
        self._is_quick = self._disk.choices.of("quick").random() < 0.7

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        disk = self._disk
        # On the event loop none was made: it takes no time there.
        plan, self._plan = self._plan or disk.plan_write(0.0), None
        disk.note(plan.fate)
        if plan.fate == "refused":
            raise _full()
        if plan.fate == "last before":
            current_node().kill_here()
        result = super()._transaction(work)
        if plan.fate == "last behind":
            current_node().kill_here()
        return result

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        if self._disk.plan_read().fate != "well":
            raise _full()
        return super()._reading(work)

    def _make_writer(self, name: str) -> WriterThread:
        return SimulatedThread(self._disk.loop, self._delay)

    def _make_readers(self) -> NoExecutor:
        return NoExecutor()

    def _delay(self) -> float:
        self._plan = self._disk.plan_write(0.0)
        return self._plan.delay_s


def _begin(connection: Connection) -> None:
    connection.connection.cursor().execute("BEGIN")


class _NoLock:
    def close(self) -> None:
        pass


class _Shared(PostgresDatabase):
    """PostgreSQL, as far as one serializable database goes."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._fate = "well"
        self._plans: dict[str, Plan] = {}
        with mock.patch.object(postgresql, "_make_engine", self._make_engine):
            super().__init__(_ADDRESS)

    def check(self, connection: Connection) -> None:
        """Find nothing wrong."""

    async def connect_to_listen(self) -> Any:
        return _Notices(self._disk)

    def _make_engine(
        self, _address: object, options: dict[str, Any], _dial: object = None
    ) -> Engine:
        engine = _engine(self._disk, options.get("poolclass", QueuePool))
        Speech(engine, notify=self._disk.notify, commit=self._commit)
        return engine

    def _commit(self) -> None:
        fate = self._fate
        if fate == "away":
            self._disk.connection.rollback()
        elif fate == "unanswered":
            self._disk.connection.commit()
        elif fate == "last before":
            self._disk.connection.rollback()
            current_node().kill_here()
        elif fate == "last behind":
            self._disk.connection.commit()
            current_node().kill_here()
        if fate in {"away", "unanswered"}:
            raise psycopg.OperationalError("the connection is lost")

    def _transaction(self, work: Callable[[Connection], _T], *, is_pipelined: bool) -> _T:
        self._begin_as_planned("database-writer")
        try:
            return super()._transaction(work, is_pipelined=is_pipelined)
        finally:
            self._fate = "well"

    def _transaction_aside(self, work: Callable[[Connection], _T]) -> _T:
        self._begin_as_planned("database-lease")
        try:
            return super()._transaction_aside(work)
        finally:
            self._fate = "well"

    def _begin_as_planned(self, thread: str) -> None:
        plan = self._plans.pop(thread, Plan(0.0))
        self._disk.note(f"{thread} {plan.fate}")
        if plan.fate == "refused":
            raise OperationalError("simulated", None, psycopg.errors.DiskFull("no room"))
        self._fate = plan.fate

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        if self._disk.plan_read().fate != "well":
            lost = psycopg.OperationalError("the connection is lost")
            raise OperationalError("simulated", None, lost, connection_invalidated=True)
        return super()._reading(work)

    def _make_writer(self, name: str) -> WriterThread:
        def delay() -> float:
            self._plans[name] = plan = self._disk.plan_write(self.timeout_s)
            return plan.delay_s

        return SimulatedThread(self._disk.loop, delay)

    def _make_readers(self) -> NoExecutor:
        return NoExecutor()


class _Notices:
    """A connection that listens, while it is entered."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._queue: asyncio.Queue[None] = asyncio.Queue()

    async def __aenter__(self) -> Self:
        self._disk.listeners.append(self._told)
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._disk.listeners.remove(self._told)

    async def execute(self, _statement: str) -> None:
        """Do what is done already."""

    async def notifies(self) -> AsyncIterator[Any]:
        while True:
            await self._queue.get()
            yield None

    def _told(self) -> None:
        self._queue.put_nowait(None)
