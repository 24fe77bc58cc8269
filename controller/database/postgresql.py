"""PostgreSQL: one writer, whose transactions are one round trip each, and a few readers."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from time import monotonic, sleep
from typing import Any, TypeVar

import psycopg
from sqlalchemy import Connection, Engine, NullPool, create_engine, event, func, select, text
from sqlalchemy.exc import DBAPIError

from controller.database import migration
from controller.database.address import DatabaseAddress
from controller.database.interface import (
    READERS,
    Database,
    DatabaseInUseError,
    DatabaseUnusableError,
    unavailable,
)
from tidegauge.errors import UnavailableError

_T = TypeVar("_T")
_LOCK = 0x7469_6465_6761_7567
_PATIENCE_S = 3.0
_CONNECT_S = 5
_SILENCE_MS = 10_000
_POLL_S = 0.02
_PREPARE_AFTER = 2
_DURABLE = (
    "SELECT set_config('synchronous_commit', 'on', false) "
    "WHERE current_setting('synchronous_commit') = 'off'"
)
_HOLDER = text(
    "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) "
    "WHERE locktype = 'advisory' AND (classid::bigint << 32) + objid::bigint = :lock"
)


class PostgresDatabase(Database):
    """One database, held by this process until `close`; its schema has to be up to date.

    Should the connection break, or the database restart, callers get `UnavailableError` until
    there is a new one.

    Parameters
    ----------
    address
        Of the database.

    Raises
    ------
    DatabaseInUseError
        If another process serves it.
    DatabaseUnusableError
        If it does not let us in, or its schema is of another revision.
    """

    def __init__(self, address: DatabaseAddress) -> None:
        isolation = {"isolation_level": "REPEATABLE READ", "pool_size": READERS}
        super().__init__(str(address), _make_engine(address, isolation))
        self._single = _make_engine(
            address, {"isolation_level": "AUTOCOMMIT", "poolclass": NullPool}
        )
        self._connection: Connection | None = None
        try:
            self._open()
        except BaseException:
            super().close()
            raise

    async def write(self, work: Callable[[Connection], None], *, rows: int) -> None:  # noqa: ARG002 (many or few, never on the event loop)
        """Run one transaction, its statements in one round trip; see `Database.write`."""
        with unavailable():
            await self._writer.pass_through(partial(self._transaction, work, _pipelined))

    async def change(self, work: Callable[[Connection], _T]) -> _T:
        """Run one transaction, statement by statement; see `Database.change`."""
        with unavailable():
            return await self._writer.pass_through(
                partial(self._transaction, work, _one_by_one)
            )

    def check(self, connection: Connection) -> None:
        """Look whether the schema fits; see `Database.check`."""
        migration.check_newest(connection, self.name)

    async def read(self, work: Callable[[Connection], _T]) -> _T:
        """Read what is committed; see `Database.read`.

        The race: a connection broke while its last transaction was being committed. What it
        came to must be settled before anything is read back, and it is once the next
        connection has the lock.
        """
        if self._connection is None:
            with unavailable():
                await self._writer.pass_through(self._connect)
        return await super().read(work)

    def close(self) -> None:
        """Finish what runs, and give the database back."""
        super().close()
        self._drop_connection()

    def _reading(self, work: Callable[[Connection], _T]) -> _T:
        """Read; connections that died while nobody used them are replaced first."""
        try:
            return super()._reading(work)
        except DBAPIError as error:
            if not error.connection_invalidated:
                raise
            return super()._reading(work)

    def _transaction(self, work: Callable[[Connection], _T], how: "_Bounds") -> _T:
        """Run a transaction; one that fails costs the connection, and so all of its state."""
        connection = self._connection or self._connect()
        try:
            with how(connection):
                return work(connection)
        except BaseException as error:
            self._drop_connection()
            if isinstance(error, psycopg.Error):
                reason = f"the database says: {error}"
                raise UnavailableError(reason) from error
            raise

    def _open(self) -> None:
        """Connect for the first time, and say what is wrong if that cannot be."""
        try:
            connection = self._connect()
            migration.check_newest(connection, self.name)
        except DBAPIError as error:
            msg = f"{self.name} cannot be used as a database: {error.orig}"
            raise DatabaseUnusableError(msg) from None

    def _connect(self) -> Connection:
        if self._connection is None:
            connection = self._single.connect()
            try:
                self._take_lock(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _take_lock(self, connection: Connection) -> None:
        """Lock out other controllers; whoever was killed just now has the lock a moment more."""
        deadline = monotonic() + _PATIENCE_S
        while not connection.scalar(select(func.pg_try_advisory_lock(_LOCK))):
            if monotonic() > deadline:
                holder = connection.scalar(_HOLDER, {"lock": _LOCK})
                raise DatabaseInUseError(self.name, holder or "unknown")
            sleep(_POLL_S)

    def _drop_connection(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None


def upgrade_schema(address: DatabaseAddress) -> None:
    """Bring the schema up to date; two that try at once do it one after another.

    Raises
    ------
    DatabaseUnusableError
        If the database does not let us in, or a newer version made its schema.
    """
    engine = _make_engine(address, {"poolclass": NullPool})
    try:
        with engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(_LOCK + 1)))
            migration.upgrade(connection, str(address))
    except DBAPIError as error:
        msg = f"{address} cannot be upgraded: {error.orig}"
        raise DatabaseUnusableError(msg) from None
    finally:
        engine.dispose()


_Bounds = Callable[[Connection], AbstractContextManager[None]]


@contextmanager
def _pipelined(connection: Connection) -> Iterator[None]:
    """Send begin, statements and commit together, and look at the answers in the end."""
    raw = connection.connection.driver_connection
    with raw.pipeline(), _transaction_of(connection):  # type: ignore[union-attr]
        yield
    connection.commit()


@contextmanager
def _one_by_one(connection: Connection) -> Iterator[None]:
    with _transaction_of(connection):
        yield
    connection.commit()


@contextmanager
def _transaction_of(connection: Connection) -> Iterator[None]:
    """Begin and commit; psycopg's own way would wait for an answer to each."""
    connection.exec_driver_sql("BEGIN")
    yield
    connection.exec_driver_sql("COMMIT")


def _make_engine(address: DatabaseAddress, options: dict[str, Any]) -> Engine:
    engine = create_engine(
        address.url,
        connect_args={
            "application_name": str(os.getpid()),
            "connect_timeout": _CONNECT_S,
            "tcp_user_timeout": _SILENCE_MS,
            "prepare_threshold": _PREPARE_AFTER,
        },
        **options,
    )

    @event.listens_for(engine, "connect")
    def prepare(connection: psycopg.Connection[Any], _record: object) -> None:
        autocommit = connection.autocommit
        connection.autocommit = True
        connection.execute(_DURABLE)
        connection.autocommit = autocommit

    return engine
