"""How controllers use the disk: one by SQLite, several as if it were PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool, Pool, QueuePool

from controller.cluster import FileLock, Lease, Right
from controller.database import (
    Database,
    DatabaseAddress,
    Fence,
    PostgresDatabase,
    PostgresSession,
)
from controller.database.sqlite import SqliteDatabase
from controller.database.writer_thread import WriterThread
from tests.simulation.dialect import Speech
from tests.simulation.disk import Disk, Plan
from tests.simulation.kernel import current_node
from tests.simulation.threads import NoExecutor, SimulatedThread

_T = TypeVar("_T")
_ADDRESS = DatabaseAddress.parse("postgresql://simulated/simulated")


def open_disk(disk: Disk, *, address: str, lease_ms: int) -> Right:
    """Open the disk for a controller, in its own node."""
    if not disk.is_shared:
        return FileLock(_Sole(disk))
    session = _Session(disk, lease_ms / 1_000)
    return Lease(session, partial(_Shared, disk), address=address, lease_ms=lease_ms)


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


class _Fated:
    """What becomes of the transactions of one thread, as the disk plans it."""

    _disk: Disk

    def __init__(self) -> None:
        self._fate = "well"
        self._plan = Plan(0.0)

    def engine(self, options: dict[str, Any]) -> Engine:
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

    @contextmanager
    def as_planned(self, thread: str) -> Iterator[None]:
        plan, self._plan = self._plan, Plan(0.0)
        self._disk.note(f"{thread} {plan.fate}")
        if plan.fate == "refused":
            raise OperationalError("simulated", None, psycopg.errors.DiskFull("no room"))
        self._fate = plan.fate
        try:
            yield
        finally:
            self._fate = "well"

    def thread(self, patience_s: Callable[[], float]) -> SimulatedThread:
        def delay() -> float:
            self._plan = self._disk.plan_write(patience_s())
            return self._plan.delay_s

        return SimulatedThread(self._disk.loop, delay)


class _Shared(_Fated, PostgresDatabase):
    """PostgreSQL, as far as one serializable database goes."""

    def __init__(self, disk: Disk, fence: Fence) -> None:
        self._disk = disk
        _Fated.__init__(self)
        PostgresDatabase.__init__(self, _ADDRESS, fence)

    def check(self, connection: Connection) -> None:
        """Find nothing wrong."""

    def _make_engine(self, _address: object, options: dict[str, Any]) -> Engine:
        return self.engine(options)

    def _transaction(self, work: Callable[[Connection], _T], *, is_pipelined: bool) -> _T:
        with self.as_planned("database-writer"):
            return super()._transaction(work, is_pipelined=is_pipelined)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        if self._disk.plan_read().fate != "well":
            lost = psycopg.OperationalError("the connection is lost")
            raise OperationalError("simulated", None, lost, connection_invalidated=True)
        return super()._reading(work)

    def _make_writer(self, name: str) -> WriterThread:
        return self.thread(lambda: self.timeout_s)

    def _make_readers(self) -> NoExecutor:
        return NoExecutor()


class _Session(_Fated, PostgresSession):
    """The connection of a lease; its server stays the same."""

    def __init__(self, disk: Disk, patience_s: float) -> None:
        self._disk = disk
        _Fated.__init__(self)
        PostgresSession.__init__(
            self, _ADDRESS, patience_s=patience_s, server_of=lambda _connection: ""
        )

    async def until_notice(self, timeout_s: float) -> None:
        noticed = asyncio.Event()
        self._disk.listeners.append(noticed.set)
        try:
            async with asyncio.timeout(timeout_s):
                await noticed.wait()
        except TimeoutError:
            pass
        finally:
            self._disk.listeners.remove(noticed.set)

    def _make_engine(self, _address: object) -> Engine:
        return self.engine({"poolclass": NullPool})

    def _make_thread(self, _name: str) -> WriterThread:
        return self.thread(lambda: self._patience_s)

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        with self.as_planned("database-lease"):
            return super()._transaction(work)
