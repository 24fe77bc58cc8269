"""The right to hold a PostgreSQL database: one row, which its holder renews and others watch.

The row is never deleted. It is *free*, or says who holds: a random id, the holder's address, its lease (L,
``--lease-ms``), and the number of its latest renewal. It also names the *server* on which it was written. The
holder renews four times a second. It is *certain* for L from the moment before its latest successful renewal
was sent. A standby reads the row four times a second. It takes a row that is free on the server of its own
connection at once. Any other row, and a missing one, it takes once it has seen it unchanged for 1.1 times the
longest of its own lease, the row's, and any that it ever saw, counted from the answer on this connection that
first showed it. Both reckon by a clock of their own that goes on while the machine is suspended; no wall clock
and no clock of the database decides anything.

Why two never hold: the holder sent renewal *k* before it was committed, and it was committed before
a standby saw *k*. So 1.1 L after the standby first saw *k*, the certainty of *k* is over, even if one of
the two clocks is 4 % slower or faster than the other. If the holder has renewed meanwhile, the number is another one. The
take-over replaces the row only with the id and the number that were seen: of a renewal and a take-over one comes
first, and the other finds nothing to change.

What was seen on one server says nothing of another one. An asynchronous replica that is promoted may lack the
latest take-over, so that it shows a row of long ago, a free one, or none. A free row of another server is not free
therefore, and whoever waits begins anew with each connection. A lost holder had the usual lease of this database, so a
standby waits for its own at least.

What follows for memory and disk:

- Every transaction of a holder locks the row against a new id, and fails without it
  (`tidegauge_check_lease`). So a commit comes before the take-over, which then sees what it stored,
  or it fails. Renewals do not change the key of the row, and so do not wait for these locks.
- What is read from memory is checked *after* it was read: certain, or 503. So no call that was sent
  after the new holder's first answer arrived shows an older state.
- A holder that is paused inside a transaction keeps the row locked. So a standby first ends the
  sessions of the former holder that are in a transaction; they carry its id in their name.

A database may take renewals back: when it crashes, or when an asynchronous replica is promoted. A holder
starts over if a new connection finds another server, or a number below the one that it wrote: its memory may be
ahead of what was promoted. Assumed is that one server takes writes at a time: the former primary is fenced. Assumed is
as well that a replica is promoted, which gives it another timeline. One that is started as a primary without that, or from a
snapshot, passes for the same server.

Whoever frees the row (`leave`) is not certain any more. `db upgrade` cannot know that, and leaves a row that is
nobody's and not free (`controller.database.migration`).
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
    POOLED,
    Database,
    DatabaseAddress,
    DatabaseUnusableError,
    Fence,
    LeaseLostError,
    PostgresDatabase,
    PostgresSession,
    server_of,
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
_READ = "SELECT id, address, lease_ms, number, is_free, server FROM holder"
_READ_ID = "SELECT id FROM identity"
_END_STUCK = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
    "AND usename = current_user AND application_name = %s AND state <> 'idle'"
)
_REPLACE = (
    "UPDATE holder SET id = %s, address = %s, lease_ms = %s, number = %s, is_free = %s, server = %s "
    "WHERE id = %s AND number = %s"
)
_INSERT = (
    "INSERT INTO holder (one, id, address, lease_ms, number, is_free, server) "
    "VALUES (1, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
)
_RENEW = text(
    "UPDATE holder SET number = number + 1 WHERE id = :id RETURNING number, pg_backend_pid()"
)
_LEAVE = "UPDATE holder SET id = %s, is_free = TRUE, server = %s WHERE id = %s"
_CHECK = "SELECT tidegauge_check_lease(%s)"
_AWAIT_COMMITS = "SELECT number FROM holder WHERE id = %s FOR UPDATE"


class _Row(NamedTuple):
    """A row as a standby sees or makes it."""

    id: str
    address: str
    lease_ms: int
    number: int
    is_free: bool
    server: str


_NOT_SEEN = _Row("", "", 0, -1, False, "")
"""What no row is, and not the same as no row."""


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
        self.awaited = ""
        """What a standby waits for."""
        self.identity = ""
        """Of the database: its stored id, system identifier and oid; empty until it has answered."""
        self._session = session
        self._open_database = open_database
        self._address = address
        self._lease_s = lease_ms / 1_000
        self._id = ""
        self._number = 0
        """Of the latest renewal that is known to be stored."""
        self._certain_until = 0.0
        self._server = ""
        """Which one memory is of."""
        self._longest_ms = lease_ms
        """The longest lease that it ever saw, its own included."""
        self._doubt = ""
        """Why memory may be ahead of the database."""
        self._problems, self._unequal = LogOnce(_log), LogOnce(_log)

    @property
    def is_certain(self) -> bool:
        """Whether no other controller can have taken over, so that memory may be trusted."""
        return boot_s() < self._certain_until and not self._doubt

    async def acquire(self) -> None:
        """Stand by until this controller has the lease."""
        seen: _Row | None = _NOT_SEEN
        since, self.awaited = boot_s(), "the database has not answered yet"
        self.identity = ""
        while True:
            sent = boot_s()
            try:
                if not self.identity:
                    self.identity = await self._session.run(self._identify)
                found = await self._session.run(_read)
                if found != seen:
                    if found and not found.is_free and found.address:
                        self._check_settings(
                            found, is_renewed=bool(seen and seen.id == found.id)
                        )
                    seen, since = found, boot_s()
                if self._is_over(found, waited_s=boot_s() - since):
                    # Before it is sent: no standby counts this lease from an earlier moment.
                    sent = boot_s()
                    if await self._take(found):
                        break
                    seen = _NOT_SEEN  # another one was faster, and its lease has just begun
                self._stand_by_for(found, since)
                await self._session.until_notice(_PERIOD_S)
            except TidegaugeError as error:
                # The next connection may lead to another server: see above.
                seen, self.holder, self.identity = _NOT_SEEN, "", ""
                self._problems.log(f"cannot take over yet: {error}")
                await asyncio.sleep(_PERIOD_S)
        self._number, self._doubt, self._server = 0, "", self._session.server
        self._certain_until = sent + self._lease_s
        self.holder = ""
        self._problems.end()
        waited_s = round(boot_s() - since, 1)
        former = "" if found is None else found.address
        more = {"former": former, "waited_s": waited_s, **self._extra}
        _log.info("holds the database: %s", _reason_for(found, self._server), extra=more)

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
            if self._session.server != self._server:
                self._doubt = "the database was failed over"
            elif number is None:
                self._doubt = await self._why_replaced()
            elif number <= self._number:
                self._doubt = "the database has taken renewals back"
            else:
                self._number = number
                self._certain_until = sent + self._lease_s
        _log.warning("starts over: %s", self._doubt, extra=self._extra)
        self._certain_until, self.holder, self._id = 0.0, "", ""

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
        """Free the row, if it is still there, and wake those that stand by.

        The session ends with that: what follows begins with what its server says then.
        """
        extra, holder = self._extra, self._id
        self._certain_until, self.holder, self._id = 0.0, "", ""
        try:
            if holder:
                _log.info("leaves the database", extra=extra)
                await self._session.run(partial(self._free, holder=holder))
        finally:
            await self._session.disconnect()

    def close(self) -> None:
        """End the session."""
        self._session.close()

    def _check_server(self, connection: "psycopg.Connection[Any]") -> None:
        """Check, on a new connection, that the database is the one that memory is of."""
        found = server_of(connection)
        if found != self._server:
            self._doubt = (
                f"the database is on server {found or 'in recovery'}, not {self._server}"
            )
            raise LeaseLostError(self._doubt)

    @property
    def _extra(self) -> dict[str, str]:
        """What log lines say of a holder: the id of its lease, and where clients reach it."""
        return {"holder": self._id, "address": self._address}

    def _identify(self, connection: Connection) -> str:
        stored_id = str(connection.exec_driver_sql(_READ_ID).scalar())
        return " ".join([stored_id, *self._session.server.split()[1:]])  # no timeline

    async def _why_replaced(self) -> str:
        """Return why the row of this lease is not there any more."""
        try:
            found = await self._session.run(_read)
        except TidegaugeError:
            return "its row was replaced"
        if found is None:
            return "somebody has deleted its row"
        # A controller without a URL looks as the upgrade of a schema does.
        return (
            "another controller has taken over"
            if found.server == self._server and found.address
            else "its row was replaced: by an upgrade of the schema, or a controller without a URL"
        )

    def _is_over(self, found: _Row | None, *, waited_s: float) -> bool:
        """Return whether nobody can be certain any more who had the row that is seen."""
        if found is not None:
            self._longest_ms = max(self._longest_ms, found.lease_ms)
            if found.is_free and found.server == self._session.server:
                return True
        return waited_s * 1_000 >= _PATIENCE_OF_STANDBYS * self._longest_ms

    def _check_settings(self, holder: _Row, *, is_renewed: bool) -> None:
        """Warn of a holder whose settings do not fit; a row of its own is one before a restart."""
        own_ms = round(self._lease_s * 1_000)
        if holder.address != self._address and holder.lease_ms != own_ms:
            self._unequal.log(
                f"{holder.address} has --lease-ms {holder.lease_ms}, and this controller {own_ms}: "
                "give all controllers of a database the same"
            )
        if holder.address == self._address and is_renewed:
            self._unequal.log(
                f"another controller holds the database, and has the --advertise-url {self._address} "
                "of this one: give each controller a URL of its own"
            )

    def _free(self, connection: Connection, holder: str) -> None:
        # With another id, what this tenure may still have under way fails its check.
        freed = (str(uuid4()), self._session.server, holder)
        if connection.exec_driver_sql(_LEAVE, freed).rowcount:
            connection.exec_driver_sql("NOTIFY tidegauge")

    def _stand_by_for(self, found: _Row | None, since: float) -> None:
        left_s = since + _PATIENCE_OF_STANDBYS * self._longest_ms / 1_000 - boot_s()
        is_held = found is not None and not found.is_free
        lease = (
            "the lease on the database is in force"
            if is_held
            else "its row is gone, or of another server"
        )
        self.awaited = f"{lease}; it waits {left_s:.1f} s more, unless the lease is renewed"
        address = found.address if found is not None and is_held else ""
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
        lease_ms, server = round(self._lease_s * 1_000), self._session.server
        own = _Row(self._id, self._address, lease_ms, 0, False, server)
        return await self._session.run(partial(_take, name=self.name, own=own, seen=seen))

    def _settle(self, connection: Connection, holder: str) -> None:
        """Wait until no transaction of this tenure is under way; its row must be as it was."""
        number = connection.exec_driver_sql(_AWAIT_COMMITS, (holder,)).scalar()
        if number is not None and number < self._number:
            self._doubt = "the database has taken changes back"
            raise LeaseLostError(self._doubt)


def open_lease(address: DatabaseAddress, settings: ServeSettings) -> Lease:
    """Connect, and check the schema; see `open_right`."""
    if settings.max_database_bytes:
        msg = f"{address}: the size of a PostgreSQL database is bounded there, not here"
        raise DatabaseUnusableError(msg)
    session = PostgresSession(address, patience_s=settings.lease_ms / 1_000)
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


def _session_name(holder: str) -> str:
    return f"tidegauge {holder}"


def _close(opening: "asyncio.Future[Database]") -> None:
    """Close a database that nobody will use."""
    if not opening.cancelled() and opening.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, opening.result().close)


def _read(connection: Connection) -> _Row | None:
    row = connection.exec_driver_sql(_READ).first()
    return None if row is None else _Row(*row)


def _reason_for(former: _Row | None, server: str) -> str:
    """Return why a take-over on a server was due."""
    if former is None:
        return "the row of its holder was gone"
    if former.is_free and former.server != server:
        return "the database was failed over: its row was written on another server"
    if former.is_free:
        return "it was handed over" if former.address else "nobody held it"
    return (
        "its lease ran out" if former.address else "its holder was lost, or the schema upgraded"
    )


def _end_stuck(connection: Connection, holder: str) -> None:
    connection.exec_driver_sql(_END_STUCK, (_session_name(holder),))


def _take(connection: Connection, name: str, own: _Row, seen: _Row | None) -> bool:
    """Replace the row that was seen, unless it has changed; the schema must be this version's.

    The race: the schema is upgraded meanwhile. Then there is another row, or this one waits until
    the upgrade is over, and finds that.
    """
    connection.exec_driver_sql(f"SET LOCAL lock_timeout = {_LONGEST_WAIT_MS}")
    check_newest(connection, name)
    if seen is None:
        return connection.exec_driver_sql(_INSERT, own).rowcount == 1
    replaced = connection.exec_driver_sql(_REPLACE, (*own, seen.id, seen.number))
    return replaced.rowcount == 1


def _renew(connection: Connection, holder: str) -> int | None:
    """Renew, and return the number; the backend is the one of the first time, or a pooler's."""
    row = connection.execute(_RENEW, {"id": holder}).first()
    if row is None:
        return None
    if connection.info.setdefault("backend", row[1]) != row[1]:
        raise DatabaseUnusableError(POOLED)
    return int(row[0])


def _check(connection: Connection, holder: str) -> None:
    connection.exec_driver_sql(_CHECK, (holder,))
