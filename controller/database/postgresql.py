"""PostgreSQL: one writer, whose transactions are one round trip each, and a few readers."""

import asyncio
import logging
import socket
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from math import inf
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, func, select
from sqlalchemy.exc import DBAPIError

from controller.database import migration
from controller.database.failures import (
    Failures,
    LeaseLostError,
    is_lost,
    reason_of,
    refusal_of,
)
from controller.database.interface import (
    READERS,
    Database,
    DatabaseAddress,
    DatabaseUnusableError,
)
from controller.database.writer_thread import WriterThread
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_T = TypeVar("_T")
_Check = Callable[[Connection], None]
_Waiting = Generator[Any, Any, _T]
_Patience = Callable[[], float]
"""Returns how long a server that was asked may say nothing, s."""
_SILENT = "the database does not answer"
_PAUSE_S = 0.01  # a process of the server ends within milliseconds, if it does
_THIS = "SELECT pid, backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()"
_END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE (pid, backend_start) = (%s, %s)"
_UPGRADE_LOCK = 0x7469_6465_6761_7567  # "tidegaug": a number that nobody else takes
_BACKEND = "SELECT pg_backend_pid()"
POOLED = (
    "the database is behind a pooler that changes sessions between transactions (PgBouncer's pool_mode "
    "transaction); connect to PostgreSQL itself, or set pool_mode = session"
)
_AUTOCOMMIT = "AUTOCOMMIT"
_SILENCE_S = 10
_CONNECTED: dict[str, Any] = {
    "application_name": "tidegauge",
    "client_encoding": "utf8",
    "connect_timeout": 5,
    "tcp_user_timeout": 1_000 * _SILENCE_S,
    "keepalives_idle": _SILENCE_S // 2,
    "keepalives_interval": 1,
    "keepalives_count": _SILENCE_S // 2,
}
"""A server that is lost without a word is noticed after this silence, asked or listened to."""
_LAST_PATIENCE_S = 1.0
"""Once the service ends."""
_PREPARE_AFTER = 2  # texts that came twice come again and again
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_READABLE = "SET datestyle = ISO"
"""psycopg reads times in no other style, and a database or a role may have one of its own."""
_LISTEN = "LISTEN tidegauge"
_IN_RECOVERY = "the server is in recovery: it is a replica still, or has not started yet"
_ENDING = "this controller gives the database up"
_NAME_PATIENCE_S = 10.0
_NAME_PAUSE_S = 0.2
_log = logging.getLogger(__name__)
_LONGEST_PAUSE = "SET idle_in_transaction_session_timeout = '3s'"
"""A controller that is suspended inside a transaction holds locks, which a take-over waits for."""


class ImpatientConnection(psycopg.Connection[Any]):
    """Is closed, as if it were lost, once the server was silent for too long.

    Keepalives and time-outs of TCP notice a server that is lost. One whose processes are frozen, or
    wait for a disk or a lock, keeps its sockets open, and its kernel acknowledges whatever it is
    sent.
    """

    find_patience_s: _Patience = staticmethod(lambda: inf)

    def wait(self, gen: _Waiting[_T], *args: Any, **options: Any) -> _T:  # noqa: ANN401 (psycopg's)
        """Wait for an answer."""
        return super().wait(self._unless_silent(gen), *args, **options)

    def _unless_silent(self, waiting: _Waiting[_T]) -> _Waiting[_T]:
        heard = monotonic()
        try:
            wanted = next(waiting)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif (silent_s := monotonic() - heard) > self.find_patience_s():
                    self.pgconn.finish()
                    msg = f"the server has not answered for {silent_s:.1f} s"
                    raise psycopg.OperationalError(msg)
                wanted = waiting.send(ready)
        except StopIteration as done:
            answer: _T = done.value
            return answer


@dataclass(frozen=True, slots=True)
class Fence:
    """What keeps a tenure from using a database that it has lost."""

    name: str = _CONNECTED["application_name"]
    """Of its sessions, so that whoever takes over can end them."""
    failures: Failures = field(default_factory=Failures)
    """What has been logged of the database."""
    timeout_s: float = 5.0
    """How long a caller waits for an answer."""
    connected: Callable[["psycopg.Connection[Any]"], None] = lambda _connection: None
    """Called with each new connection; raises if it is not to be used."""
    begin: _Check = lambda _connection: None
    """Begins every transaction that writes; it fails unless the transaction may go on."""
    settle: _Check = lambda _connection: None
    """Called with a new connection of the writer, after one broke: it waits until what the old one
    was committing is known."""


class PostgresDatabase(Database):
    """One database, whose schema has to be up to date.

    Should the connection break, or the database restart, callers get `UnavailableError` until
    there is a new one.
    """

    def __init__(self, address: DatabaseAddress, fence: Fence | None = None) -> None:
        self._fence = fence = fence or Fence()
        isolation = {"isolation_level": "REPEATABLE READ", "pool_size": READERS}
        super().__init__(
            str(address), self._make_engine(address, isolation, lambda: self._longest_silence_s)
        )
        self._failures = fence.failures
        self.address = address
        self.timeout_s = fence.timeout_s
        self._longest_silence_s = inf
        """Of every connection but the writer's: much may have to be read."""
        alone = {"isolation_level": _AUTOCOMMIT, "poolclass": NullPool}
        self._single = self._make_engine(address, alone, lambda: self.timeout_s)
        self._connection: Connection | None = None
        self._backend: tuple[int, datetime] | None = None
        """The process of the server that worked for the newest of the writer's connections: its
        number, which another may get once it has ended, and its start."""
        try:
            migration.check_newest(self._connect(), self.name)
        except BaseException as error:
            super().close()
            if not isinstance(error, DBAPIError):
                raise
            msg = f"{self.name} cannot be used as a database: {error.orig}"
            raise DatabaseUnusableError(msg) from None

    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:  # noqa: ARG002 (many or few, never on the event loop)
        """Run one transaction, its statements in one round trip; see `Database.write`."""
        with self._failures.translated():
            await self._writer.run(partial(self._transaction, work, is_pipelined=True))

    async def change(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction, statement by statement; see `Database.change`."""
        with self._failures.translated():
            return await self._writer.run(partial(self._transaction, work, is_pipelined=False))

    def check(self, connection: Connection) -> None:
        """Check that the schema fits; see `Database.check`."""
        migration.check_newest(connection, self.name)

    async def read(self, work: Callable[[Connection], _T], *, patient: bool = False) -> _T:
        """Read what is committed; see `Database.read`.

        A server that is stuck keeps a thread waiting, but not the caller.

        The race: a connection broke while its last transaction was being committed. What it
        came to must be settled before anything is read back, and it is once the writer has its
        next connection.
        """
        with self._failures.translated(writes=False):
            try:
                async with asyncio.timeout(None if patient else self.timeout_s):
                    if self._connection is None:
                        await self._writer.run(self._connect)
                    return await super().read(work)
            except TimeoutError:
                error = TimeoutError(f"nothing for {self.timeout_s:g} s")
                raise UnavailableError(_SILENT) from error

    def give_up(self) -> None:
        """Fail what hangs, and connect no more; see `Database.give_up`."""
        self._longest_silence_s = _LAST_PATIENCE_S
        self.timeout_s = min(self.timeout_s, _LAST_PATIENCE_S)

    def close(self) -> None:
        """Finish what runs, unless it hangs, and give the database back."""
        self.give_up()
        super().close()
        _drop(self._connection)

    def _make_engine(
        self, address: DatabaseAddress, options: dict[str, Any], patience_s: _Patience
    ) -> Engine:
        return _make_engine(
            address,
            options | {"name": self._fence.name},
            patience_s,
            dial=self._dial,
            connected=self._fence.connected,
        )

    def _dial(self, **named: Any) -> ImpatientConnection:  # noqa: ANN401 (psycopg's)
        """Make a connection, unless the tenure ends: a server that hangs takes its time."""
        if self._longest_silence_s < inf:
            raise LeaseLostError(_ENDING)
        return ImpatientConnection.connect(**named)

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        """Read; connections that died while nobody used them are replaced first."""
        try:
            return super()._reading(work)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return super()._reading(work)

    def _transaction(self, work: Callable[[Connection], _T], *, is_pipelined: bool) -> _T:
        """Run a transaction; one that fails costs the connection, and so all of its state."""
        connection = self._connect()
        try:
            with _transaction_on(connection, is_pipelined=is_pipelined):
                self._fence.begin(connection)
                return work(connection)
        except BaseException:
            self._connection = None
            _drop(connection)
            raise

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = self._single.connect()
            try:
                # In this order: what the former process was told to commit is known once it is gone.
                self._end_former(connection)
                self._fence.settle(connection)
                pid, started = connection.exec_driver_sql(_THIS).one()
                self._backend = pid, started
            except BaseException:
                _drop(connection)
                raise
            self._connection = connection
        return self._connection

    def _end_former(self, connection: Connection) -> None:
        """End the process of a connection that was given up, and wait until it is gone.

        The race: it was stuck, and what it had been sent is still there to be read. When it moves
        again it would carry that out, up to the commit, at any time.
        """
        deadline = monotonic() + self.timeout_s
        while self._backend and connection.exec_driver_sql(_END, self._backend).first():
            if monotonic() > deadline:
                msg = f"process {self._backend[0]} of the server does not end"
                raise UnavailableError(_SILENT) from TimeoutError(msg)
            sleep(_PAUSE_S)


class PostgresSession:
    """One connection beside those of a database, with a thread of its own.

    A server that says nothing for as long as its patience is taken for one that is lost.
    """

    def __init__(self, address: DatabaseAddress, *, patience_s: float) -> None:
        self.name = str(address)
        self.server = ""
        """Which one it is connected to, as `server_of` finds when it connects."""
        self._patience_s = patience_s
        self.failures = Failures()
        self._connection: Connection | None = None
        self._thread = self._make_thread("database-lease")
        self._engine = self._make_engine(address)

    def check_schema(self) -> None:
        """Check the schema, and refuse a pooler that shows; raises `DatabaseUnusableError`."""
        try:
            with self._engine.connect() as other:
                own = self._connect()  # behind it: the session is on the server of this one
                migration.check_newest(own, self.name)
                migration.check_whole(own, self.name)
                # A pooler that changes sessions shows here: one connection asks two processes of the
                # server in turn, or two connections ask one.
                pids = [one.exec_driver_sql(_BACKEND).scalar() for one in (own, other, own)]
            if pids[0] != pids[2] or pids[0] == pids[1]:
                raise DatabaseUnusableError(POOLED)
        except (DBAPIError, LeaseLostError) as error:
            reason = getattr(error, "orig", error)
            msg = f"{self.name} cannot be used as a database: {reason}"
            raise DatabaseUnusableError(msg) from None

    async def run(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction; see `Database.change` for errors."""
        with self.failures.translated():
            return await self._thread.run(partial(self._transaction, work))

    async def until_notice(self, timeout_s: float) -> None:
        """Wait until a holder says that it leaves, or the time is over."""
        with self.failures.translated():
            await self._thread.run(partial(self._wait, timeout_s))

    async def disconnect(self) -> None:
        """Drop the connection; the next call makes another one, perhaps to another server."""
        await self._thread.run(self._drop)

    def close(self) -> None:
        """Finish what runs, and disconnect."""
        self._patience_s = min(self._patience_s, _LAST_PATIENCE_S)
        self._thread.close()
        self._drop()

    def _make_thread(self, name: str) -> WriterThread:
        return WriterThread(name)

    def _make_engine(self, address: DatabaseAddress) -> Engine:
        # Behind a pooler, a statement of another text may have the name of one that is prepared.
        options = {"isolation_level": _AUTOCOMMIT, "poolclass": NullPool, "prepare": None}
        return _make_engine(address, options, lambda: self._patience_s, connected=self._greet)

    def _greet(self, connection: "psycopg.Connection[Any]") -> None:
        """Listen, and read which server this is; one in recovery takes no transactions.

        The race: a replica is promoted between the two. To listen comes first, since a session that
        began on a replica would find that it is none only once it has a tenure.
        """
        self.server = ""
        with suppress(psycopg.errors.ReadOnlySqlTransaction):  # in recovery
            connection.execute(_LISTEN)
            self.server = server_of(connection)
        if not self.server:
            raise LeaseLostError(_IN_RECOVERY)

    def _connect(self) -> Connection:
        self._connection = self._connection or self._engine.connect()
        return self._connection

    def _transaction(self, work: Callable[[Connection], _T]) -> _T:
        with self._dropping_if_lost() as connection, _transaction_on(connection):
            return work(connection)

    def _wait(self, timeout_s: float) -> None:
        with self._dropping_if_lost() as connection:
            raw: Any = connection.connection.driver_connection
            try:
                for _ in raw.notifies(timeout=timeout_s, stop_after=1):
                    pass
            except psycopg.Error as error:
                raise refusal_of(error) from error

    @contextmanager
    def _dropping_if_lost(self) -> Iterator[Connection]:
        """Lend the connection; an error costs it, and so all of its state."""
        try:
            yield self._connect()
        except BaseException:
            self._drop()
            raise

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        _drop(connection)


def server_of(connection: "psycopg.Connection[Any]") -> str:
    """Return which server this is, as `migration.SERVER` has it; empty if it is in recovery."""
    row = connection.execute(migration.SERVER).fetchone()
    return "" if row is None else str(row[0])


def upgrade_schema(address: DatabaseAddress) -> None:
    """Bring the schema up to date; two that try at once do it one after another."""
    _wait_for_name(address.url.host)
    options = {"isolation_level": "READ COMMITTED", "poolclass": NullPool}
    engine = _make_engine(address, options, lambda: inf)
    try:
        with engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
            migration.upgrade(connection, str(address))
    except DBAPIError as error:
        msg = f"{address} cannot be upgraded: {error.orig}"
        raise DatabaseUnusableError(msg) from None
    finally:
        engine.dispose()


def _wait_for_name(host: str | None) -> None:
    """Wait for a while until a name is known: that of a container is once it runs."""
    deadline = monotonic() + _NAME_PATIENCE_S
    is_logged = False
    while host and not {"/", ","} & set(host) and monotonic() < deadline:
        try:
            socket.getaddrinfo(host, None)
        except socket.gaierror as error:
            if not is_logged:
                _log.warning(
                    "host %s: %s; asking for %g s", host, error.strerror, _NAME_PATIENCE_S
                )
                is_logged = True
            sleep(_NAME_PAUSE_S)
        else:
            return


@contextmanager
def _transaction_on(connection: Connection, *, is_pipelined: bool = False) -> Iterator[None]:
    """Begin and commit; psycopg's own way would wait for an answer to each.

    In a pipeline begin, statements and commit are sent together, and the answers looked at in
    the end. A transaction that failed is known to be undone, but not one during which the
    connection was lost once its commit may have been sent.
    """
    raw: Any = connection.connection.driver_connection
    try:
        with raw.pipeline() if is_pipelined else nullcontext():
            connection.exec_driver_sql("BEGIN")
            yield
            try:
                connection.exec_driver_sql("COMMIT")
            except DBAPIError as error:
                if is_lost(error.orig):
                    raise OutcomeUnknownError(reason_of(error.orig)) from error.orig
                raise
        connection.commit()
    except psycopg.Error as error:  # of a pipeline, which SQLAlchemy does not see
        if is_lost(error):
            raise OutcomeUnknownError(reason_of(error)) from error
        raise refusal_of(error) from error


def _drop(connection: Connection | None) -> None:
    if connection is not None:
        connection.invalidate()
        connection.close()


def _make_engine(
    address: DatabaseAddress,
    options: dict[str, Any],
    patience_s: _Patience,
    *,
    dial: Callable[..., ImpatientConnection] = ImpatientConnection.connect,
    connected: Callable[["psycopg.Connection[Any]"], None] = lambda _connection: None,
) -> Engine:
    own = {
        "application_name": options.pop("name", _CONNECTED["application_name"]),
        "prepare_threshold": options.pop("prepare", _PREPARE_AFTER),
    }
    engine = create_engine(address.url, connect_args=_CONNECTED | own, **options)

    @event.listens_for(engine, "do_connect")
    def connect(
        _dialect: object, _record: object, _args: object, named: dict[str, Any]
    ) -> ImpatientConnection:
        connection = dial(**named)
        connection.find_patience_s = patience_s  # in force before the first statement
        return connection

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection[Any], _record: object) -> None:
        # A setting that is made inside a transaction is undone if that is rolled back.
        autocommit = connection.autocommit
        connection.autocommit = True
        connection.execute(_DURABLE)
        connection.execute(_READABLE)
        if options["isolation_level"] == _AUTOCOMMIT:
            connection.execute(_LONGEST_PAUSE)
        connected(connection)
        connection.autocommit = autocommit

    return engine
