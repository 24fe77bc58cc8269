"""The right to hold a PostgreSQL database: one row, which its holder renews and others watch.

The row says who holds: a random id, the holder's address, its lease (L, ``--lease-ms``), and the number
of its latest renewal. A constraint allows one row. The holder renews four times a second. It is
*certain* for L from the moment before its latest successful renewal was sent. A standby reads the row four
times a second, and takes over once it has seen the same id and number for 1.1 L, counted from the
answer that first showed them; its own lease may be another one. Both reckon by a clock of their own
that goes on while the machine is suspended; no wall clock and no clock of the database decides anything.

Why two never hold: the holder sent renewal *k* before it was committed, and it was committed before
a standby saw *k*. So 1.1 L after the standby first saw *k*, the certainty of *k* is over, even if one of
the two clocks is 4 % slower or faster than the other. If the holder has renewed meanwhile, the number is another one. The
take-over deletes the row only with the id and the number that were seen, and inserts its own in the same
transaction: of a renewal and a take-over one comes first, and the other finds nothing to change.

What follows for memory and disk:

- Every transaction of a holder locks the row against deletion, and fails without it
  (`tidegauge_check_lease`). So a commit comes before the take-over, which then sees what it stored,
  or it fails. Renewals do not change the key of the row, and so do not wait for these locks.
- What is read from memory is checked *after* it was read: certain, or 503. So no call that was sent
  after the new holder's first answer arrived shows an older state.
- A holder that is paused inside a transaction keeps the row locked. So a standby first ends the
  sessions of the former holder that are in a transaction; they carry its id in their name.

A database may take renewals back: when it crashes, or when an asynchronous replica is promoted. Then a standby
might see a number again that it saw before, though the holder has renewed since. So a standby that
had to connect again begins its wait anew. A holder starts over if a new connection finds another timeline, or a number
below the one that it wrote: its memory may be ahead of what was promoted.

Who deletes the row without having waited (`leave`) is not certain any more; `db upgrade`, which cannot know
that, leaves a row that nobody renews (`controller.database.migration`).
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from uuid import uuid4

import psycopg
from sqlalchemy import Connection, text

from controller.clocks import STAMP_MS, boot_s
from controller.configuration import ServeSettings
from controller.database import (
    Database,
    DatabaseAddress,
    DatabaseUnusableError,
    Fence,
    LeaseLostError,
    PostgresDatabase,
    PostgresSession,
)
from controller.database.migration import check_newest
from controller.logs.deduplication import LogOnce
from tidegauge.errors import OutcomeUnknownError, TidegaugeError, UnavailableError

_log = logging.getLogger(__name__)
_PERIOD_S = STAMP_MS / 1_000
_PATIENCE_OF_STANDBYS = 1.1
"""In leases: clocks of two machines may differ in rate by a few percent."""
_LONGEST_WAIT_MS = 1_000
"""Of a take-over for a lock; then the sessions of the former holder are ended once more."""
_TIMELINE = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN '' "
    "ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END"
)
_READ = "SELECT id, address, lease_ms, number FROM holder"
_END_STUCK = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name = %s AND state <> 'idle'"
)
_DELETE_SEEN = "DELETE FROM holder WHERE id = %s AND number = %s"
_INSERT = (
    "INSERT INTO holder (one, id, address, lease_ms, number) VALUES (1, %s, %s, %s, %s) "
    "ON CONFLICT DO NOTHING"
)
_RENEW = text("UPDATE holder SET number = number + 1 WHERE id = :id RETURNING number")
_LEAVE = "DELETE FROM holder WHERE id = %s"
_CHECK = "SELECT tidegauge_check_lease(%s)"
_AWAIT_COMMITS = "SELECT number FROM holder WHERE id = %s FOR UPDATE"


class _Row(NamedTuple):
    """A row as a standby sees or makes it."""

    id: str
    address: str
    lease_ms: int
    number: int


class Lease:
    """The lease of this process, which it stands by for, renews and leaves.

    Parameters
    ----------
    session
        A connection of its own, that waits for no transaction of the tenure.
    open_database
        Makes the database of a tenure; any thread may call it.
    address
        Where clients reach this controller; empty if they do not.
    """

    def __init__(
        self,
        session: PostgresSession,
        open_database: Callable[[Fence], Database],
        *,
        address: str,
        lease_ms: int,
    ) -> None:
        self.name = session.name
        self.holder = ""
        """Where the controller is reached that holds the database; empty if nobody knows."""
        self._session = session
        self._open_database = open_database
        self._address = address
        self._lease_s = lease_ms / 1_000
        self._id = ""
        self._number = 0
        """Of the latest renewal that is known to be stored."""
        self._certain_until = 0.0
        self._timeline = ""
        self._doubt = ""
        """Why memory may be ahead of the database."""
        self._problems = LogOnce(_log)

    @property
    def is_certain(self) -> bool:
        """Whether no other controller can have taken over, so that memory may be trusted."""
        return boot_s() < self._certain_until and not self._doubt

    async def acquire(self) -> None:
        """Stand by until this controller has the lease."""
        seen, since = None, boot_s()
        while True:
            sent = boot_s()
            try:
                found = await self._session.run(_read)
                if seen is None or found != seen:
                    seen, since = found, boot_s()
                waited_ms = (boot_s() - since) * 1_000
                if found is None or waited_ms >= _PATIENCE_OF_STANDBYS * found.lease_ms:
                    sent = boot_s()
                    if await self._take(found):
                        break
                    seen = None
                self._stand_by_for(found)
                await self._session.until_notice(_PERIOD_S)
            except TidegaugeError as error:
                # The database may have taken renewals back: see above.
                seen, self.holder = None, ""
                self._problems.log(f"cannot take over yet: {error}")
                await asyncio.sleep(_PERIOD_S)
        self._number, self._doubt, self._timeline = 0, "", self._session.server
        self._certain_until = sent + self._lease_s
        self.holder = ""
        self._problems.end()
        _log.info("holds the database", extra=self._extra)

    async def keep(self) -> None:
        """Renew the lease until it is lost."""
        while not self._doubt:
            await asyncio.sleep(_PERIOD_S)
            sent = boot_s()
            try:
                number = await self._session.run(partial(_renew, holder=self._id))
            except (OutcomeUnknownError, UnavailableError) as error:
                self._problems.log(f"the lease was not renewed: {error}")
                continue
            self._problems.end()
            if self._session.server != self._timeline:
                self._doubt = "the database was failed over"
            elif number is None:
                self._doubt = "another controller has taken over"
            elif number <= self._number:
                self._doubt = "the database has taken renewals back"
            else:
                self._number = number
                self._certain_until = sent + self._lease_s
        _log.warning("starts over: %s", self._doubt, extra=self._extra)
        self._certain_until, self.holder = 0.0, ""

    async def open(self) -> Database:
        """Open the database for a tenure under this lease; its caller closes it."""
        holder = self._id
        fence = Fence(
            name=_session_name(holder),
            failures=self._session.failures,
            timeout_s=self._lease_s + 1,
            connected=self._check_server,
            begin=partial(_check, holder=holder),
            settle=partial(self._settle, holder=holder),
        )
        opening = asyncio.ensure_future(asyncio.to_thread(self._open_database, fence))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:  # the lease was lost, or the service ends
            opening.add_done_callback(_close)
            raise

    async def leave(self) -> None:
        """Delete the row, if it is still there, and wake those that stand by."""
        self._certain_until, self.holder = 0.0, ""
        holder, self._id = self._id, ""
        if holder:
            await self._session.run(partial(_leave, holder=holder))

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _check_server(self, connection: "psycopg.Connection[Any]") -> None:
        """Check, on a new connection, that the database is the one that memory is of."""
        found = server_of(connection)
        if found != self._timeline:
            self._doubt = (
                f"the database is on timeline {found or 'of a standby'}, not {self._timeline}"
            )
            raise LeaseLostError(self._doubt) from ConnectionError(self._doubt)

    @property
    def _extra(self) -> dict[str, str]:
        """What log lines say of a holder: the id of its lease, and where clients reach it."""
        return {"holder": self._id, "address": self._address}

    def _stand_by_for(self, found: _Row | None) -> None:
        address = "" if found is None else found.address
        if address == self._address:  # its own, before it was killed: nobody can be sent there
            address = ""
        if found is not None and address != self.holder:
            _log.info("stands by", extra={"holder": found.id, "address": address})
        self.holder = address
        self._problems.end()

    async def _take(self, seen: _Row | None) -> bool:
        """Take over from whoever was seen; False if somebody was faster, or it has renewed."""
        if seen is not None:
            await self._session.run(partial(_end_stuck, holder=seen.id))
        self._id = str(uuid4())
        own = _Row(self._id, self._address, round(self._lease_s * 1_000), 0)
        return await self._session.run(partial(_take, name=self.name, own=own, seen=seen))

    def _settle(self, connection: Connection, holder: str) -> None:
        """Wait until no transaction of this tenure is under way; its row must be as it was."""
        number = connection.exec_driver_sql(_AWAIT_COMMITS, (holder,)).scalar()
        if number is not None and number < self._number:
            self._doubt = "the database has taken changes back"
            raise LeaseLostError(self._doubt) from ConnectionError(self._doubt)


def open_lease(address: DatabaseAddress, settings: ServeSettings) -> Lease:
    """Connect, and check the schema; see `open_right`."""
    if settings.max_database_bytes:
        msg = f"{address}: the size of a PostgreSQL database is bounded there, not here"
        raise DatabaseUnusableError(msg)
    session = PostgresSession(
        address, patience_s=settings.lease_ms / 1_000, server_of=server_of
    )
    try:
        session.check_schema()
    except BaseException:
        session.close()
        raise
    return Lease(
        session,
        partial(PostgresDatabase, address),
        address=(settings.advertise_url or "").rstrip("/"),
        lease_ms=settings.lease_ms,
    )


def server_of(connection: "psycopg.Connection[Any]") -> str:
    """Return the timeline of a server, which is another one after a failover."""
    row = connection.execute(_TIMELINE).fetchone()
    return "" if row is None else str(row[0])


def _session_name(holder: str) -> str:
    return f"tidegauge {holder}"


def _close(opening: "asyncio.Future[Database]") -> None:
    """Close a database that nobody will use."""
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)


def _read(connection: Connection) -> _Row | None:
    row = connection.exec_driver_sql(_READ).first()
    return None if row is None else _Row(*row)


def _end_stuck(connection: Connection, holder: str) -> None:
    connection.exec_driver_sql(_END_STUCK, (_session_name(holder),))


def _take(connection: Connection, name: str, own: _Row, seen: _Row | None) -> bool:
    """Replace the row that was seen, unless it has changed; the schema must be this version's.

    The race: the schema is upgraded meanwhile. Then there is another row, or this one waits until
    the upgrade is over, and finds that.
    """
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_LONGEST_WAIT_MS}")
    check_newest(connection, name)
    if seen is not None:
        deleted = connection.exec_driver_sql(_DELETE_SEEN, (seen.id, seen.number))
        if deleted.rowcount != 1:
            return False
    return connection.exec_driver_sql(_INSERT, own).rowcount == 1


def _renew(connection: Connection, holder: str) -> int | None:
    number: int | None = connection.execute(_RENEW, {"id": holder}).scalar()
    return number


def _leave(connection: Connection, holder: str) -> None:
    if connection.exec_driver_sql(_LEAVE, (holder,)).rowcount:
        connection.exec_driver_sql("NOTIFY tidegauge")


def _check(connection: Connection, holder: str) -> None:
    connection.exec_driver_sql(_CHECK, (holder,))
