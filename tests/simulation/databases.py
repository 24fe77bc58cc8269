"""How controllers use the disk: one by SQLite, several as if it were PostgreSQL."""

import asyncio
import sqlite3
from collections.abc import Callable
from dataclasses import replace
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
    server_of,
)
from controller.database.sqlite import SqliteDatabase
from controller.database.writer_thread import WriterThread
from tests.simulation.dialect import LeaseLost, Speech
from tests.simulation.disk import Disk, LockedError, Plan
from tests.simulation.kernel import current_node
from tests.simulation.threads import NoExecutor, SimulatedThread

_T = TypeVar("_T")
_ADDRESS = DatabaseAddress.parse("postgresql://simulated/simulated")
_LONGEST_LOCK_S = 1.0
"""As whoever takes over asks PostgreSQL."""


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


def _lost() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection is lost")


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

    def plan(self) -> Plan:
        # What is written without a log of what is to be done is not sent anywhere.
        self._plan = self._disk.plan_write()._replace(is_sent_whole=False)
        return self._plan

    def begin(self) -> None:
        """Begin with the rest."""

    def end(self) -> None:
        """End with the rest."""

    def _set_quick(self, *, is_quick: bool) -> None:
        self._is_quick = self._disk.choices.of("quick").random() < 0.7

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        # On the event loop none was made: it takes no time there.
        plan, self._plan = self._plan or self._disk.plan_write(), None
        self._disk.note(plan.fate)
        if plan.fate == "refused":
            raise _full()
        return super()._transaction(work)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        if self._disk.fails_to_read():
            raise _full()
        return super()._reading(work)

    def _make_writer(self, name: str) -> WriterThread:
        return SimulatedThread(self._disk.loop, self)

    def _make_readers(self) -> NoExecutor:
        return NoExecutor()


def _begin(connection: Connection) -> None:
    connection.connection.cursor().execute("BEGIN")


class _NoLock:
    def close(self) -> None:
        pass


class _Server:
    """Answers `server_of`."""

    def __init__(self, disk: Disk) -> None:
        self.server = disk.server

    def execute(self, _text: str) -> "_Server":
        return self

    def fetchone(self) -> tuple[str]:
        return (self.server,)


class _Connection:
    """One connection to the shared database, with what the disk plans for its transactions."""

    _disk: Disk
    name = "tidegauge"

    def __init__(self) -> None:
        self.locked = ""
        self.is_ended = False
        self._plan = Plan()
        self._crashes = self._disk.crashes
        self._locked_since: float | None = None
        current_node().on_kill.append(self._note_kill)

    def plan(self) -> Plan:
        raise NotImplementedError

    @staticmethod
    def _thread_of(thread: WriterThread) -> SimulatedThread:
        assert isinstance(thread, SimulatedThread)
        return thread

    def cut(self) -> None:
        raise NotImplementedError

    def begin(self) -> None:
        self._disk.begun.append(self)
        self.is_ended = False

    def end(self) -> None:
        self.locked, self._locked_since = "", None
        if self in self._disk.begun:
            self._disk.begun.remove(self)

    def engine(self, pool: type[Pool]) -> Engine:
        engine = _engine(self._disk, pool)
        Speech(engine, self)
        event.listen(engine, "connect", lambda *_: self._connected())
        return engine

    def start(self) -> None:
        """Begin a transaction, unless its connection was ended."""
        if self.is_ended or self._crashes != self._disk.crashes:
            raise _lost()

    def lock(self, lease_id: str) -> None:
        """Lock the row of a lease; raises if there is none."""
        if not self._disk.look("SELECT 1 FROM holder WHERE id = ?", lease_id):
            raise LeaseLost("no lease")
        self.locked = lease_id

    def replace(self, lease_id: str) -> None:
        """Wait until nobody has locked the row that is to get another id."""
        if not self._disk.is_locked(lease_id):
            self._disk.keep_holder()
            return
        now_s = self._disk.loop.time()
        self._locked_since = now_s if self._locked_since is None else self._locked_since
        if now_s - self._locked_since >= _LONGEST_LOCK_S:
            raise psycopg.errors.LockNotAvailable("lock timeout")
        raise LockedError

    def end_sessions(self, name: str) -> None:
        self._disk.end_sessions(name)

    def notify(self) -> None:
        self._disk.notify()

    def commit(self) -> None:
        """Commit, or not, as it was planned."""
        fate = self._plan.fate
        if fate == "away":
            self._disk.connection.rollback()
        elif fate == "unanswered":
            self._disk.connection.commit()
        if fate in {"away", "unanswered"}:
            raise _lost()

    def carry_out(self, what: str, work: Callable[[], _T]) -> _T:
        """Run a transaction, unless the database refuses it."""
        self._disk.note(f"{what} {self._plan.fate}")
        if self._plan.fate == "refused":
            raise OperationalError("simulated", None, psycopg.errors.DiskFull("no room"))
        try:
            return work()
        finally:
            self._plan = Plan()

    def _connected(self) -> None:
        self._crashes = self._disk.crashes

    def _note_kill(self) -> None:
        """End what was not sent as a whole."""
        if not self._plan.is_sent_whole:
            self.end()


class _Shared(_Connection, PostgresDatabase):
    """PostgreSQL, as far as one serializable database goes.

    A transaction checks its lease when it begins, and all that it reads and writes is of the moment
    in which it is carried out.
    """

    def __init__(self, disk: Disk, fence: Fence) -> None:
        self._disk = disk
        self._check_lease, self._check_server = fence.begin, fence.connected
        self._checked: Exception | bool = False
        _Connection.__init__(self)
        PostgresDatabase.__init__(self, _ADDRESS, replace(fence, begin=self._check_once))
        self.name = fence.name

    def check(self, connection: Connection) -> None:
        """Find nothing wrong."""

    def plan(self) -> Plan:
        self._plan = self._disk.plan_write(self.timeout_s)
        return self._plan

    def cut(self) -> None:
        self._thread_of(self._writer).cut()

    def begin(self) -> None:
        super().begin()
        self._checked = False
        if self._connection is not None:
            try:
                self._check_lease(self._connection)
                self._checked = True
            except Exception as error:  # noqa: BLE001 (the transaction raises it)
                self._checked = error
            self._connection.rollback()

    def _check_once(self, connection: Connection) -> None:
        checked, self._checked = self._checked, False
        if isinstance(checked, Exception):
            raise checked
        if not checked:  # on a new connection
            self._check_lease(connection)

    def _connected(self) -> None:
        self._disk.meet()
        self._check_server(_Server(self._disk))  # type: ignore[arg-type]
        super()._connected()

    def commit(self) -> None:
        super().commit()
        self._disk.note_commit(self.name)

    def _make_engine(
        self, _address: object, options: dict[str, Any], _patience_s: object
    ) -> Engine:
        return self.engine(options.get("poolclass", QueuePool))

    def _transaction(self, work: Callable[[Connection], _T], *, is_pipelined: bool) -> _T:
        transact = partial(super()._transaction, work, is_pipelined=is_pipelined)
        return self.carry_out("database-writer", transact)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        if self._disk.fails_to_read():
            raise OperationalError("simulated", None, _lost(), connection_invalidated=True)
        if self._crashes != self._disk.crashes:
            self._engine.dispose()
        return super()._reading(work)

    def _make_writer(self, name: str) -> WriterThread:
        return SimulatedThread(self._disk.loop, self)

    def _make_readers(self) -> NoExecutor:
        return NoExecutor()


class _Session(_Connection, PostgresSession):
    """The connection of a lease."""

    def __init__(self, disk: Disk, patience_s: float) -> None:
        self._disk = disk
        _Connection.__init__(self)
        PostgresSession.__init__(self, _ADDRESS, patience_s=patience_s)

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

    def plan(self) -> Plan:
        self._plan = self._disk.plan_write(self._patience_s, is_lease=True)
        return self._plan

    def cut(self) -> None:
        self._thread_of(self._thread).cut()

    def _connected(self) -> None:
        super()._connected()
        self.server = server_of(_Server(self._disk))  # type: ignore[arg-type]

    def _make_engine(self, _address: object) -> Engine:
        return self.engine(NullPool)

    def _make_thread(self, _name: str) -> WriterThread:
        return SimulatedThread(self._disk.loop, self)

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        return self.carry_out("database-lease", partial(super()._transaction, work))
