"""Rows of controllers and holders; PostgreSQL only, for SQLite has one controller.

A controller lives as long as its row. Every transaction that it writes first locks the row
against being deleted (`tidegauge_check_lease`), and taking over from it begins with deleting
the row. So either a commit comes first, and whoever takes over sees it, or it fails.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, Table, text

from controller.schema import reader_groups, streams
from tidegauge.names import StreamName

CHANNEL = "tidegauge"

_NAMES = {streams: "stream", reader_groups: "reader_group"}
_EXPIRES = "clock_timestamp() + :lease_ms * interval '1 millisecond'"
_JOIN = text(
    "INSERT INTO controllers (address, expires_at, listening_ms) "  # noqa: S608
    f"VALUES (:address, {_EXPIRES}, 0) RETURNING id"
)
_RENEW = text(
    f"UPDATE controllers SET expires_at = {_EXPIRES}, "  # noqa: S608 (only our own names)
    "listening_ms = greatest(listening_ms, :listening_ms) WHERE id = :id"
)
_LEFT_MS = "1000 * extract(epoch FROM expires_at - clock_timestamp())::float"
_CONTROLLERS = f"SELECT id, address, {_LEFT_MS} AS left_ms FROM controllers"  # noqa: S608 (our own)
_DEAD = "SELECT id FROM controllers WHERE expires_at < clock_timestamp() FOR UPDATE SKIP LOCKED"
# Sessions that do not go on with what they sent ahead, once a lease is kept though it expired.
# The name and the bound, that of idle transactions, are those of the session that checks, too.
_A_PAUSE_AGO = (
    "clock_timestamp() - current_setting('idle_in_transaction_session_timeout')::interval"
)
_END_STUCK = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "  # noqa: S608 (only our own names)
    "WHERE datname = current_database() AND usename = current_user "
    "AND application_name = current_setting('application_name') "
    "AND state = 'active' AND wait_event = 'ClientRead' "
    f"AND state_change < {_A_PAUSE_AGO} "
    f"AND EXISTS (SELECT FROM controllers WHERE expires_at < {_A_PAUSE_AGO})"
)
_UNHOLD_STREAMS = text(
    "UPDATE streams SET holder = NULL, listening_ms = listening_ms + :listening_ms "
    "WHERE holder = :id"
)
# "NO KEY", so as not to pass over a stream while a group that reads it is stored.
_TAKE_STREAMS = text(
    "UPDATE streams SET holder = :id, listening_ms = listening_ms - :listening_ms "
    "WHERE key IN (SELECT key FROM streams WHERE holder IS NULL "
    "ORDER BY key LIMIT :count FOR NO KEY UPDATE SKIP LOCKED) RETURNING key"
)
_TAKE_GROUPS = text(
    "UPDATE reader_groups SET holder = :id WHERE (scope, reader_group) IN ("
    "SELECT scope, reader_group FROM reader_groups WHERE holder IS NULL "
    "ORDER BY scope, reader_group LIMIT :count FOR UPDATE SKIP LOCKED)"
)


@dataclass(frozen=True, slots=True)
class Shares:
    """The controllers that live, by id, and how much each holds."""

    addresses: dict[int, str]
    next_expiry_ms: float
    """When the first of the leases expires unless it is renewed."""
    streams: dict[int | None, int]
    """How many each holds; under None those without a holder."""
    groups: dict[int | None, int]


class Found(NamedTuple):
    """The holder of something: id and address; 0 and nothing while there is none."""

    controller: int
    address: str


def join(connection: Connection, address: str, lease_ms: int) -> int:
    """Get a lease; whoever had this address before is no more."""
    if address:
        _reap(connection, "address = :address", address=address)
    values = {"address": address, "lease_ms": lease_ms}
    controller: int = connection.execute(_JOIN, values).scalar_one()
    notify(connection)
    return controller


def left_ms(connection: Connection, address: str) -> float | None:
    """Return how long the lease of an address lasts if it is not renewed; None if it has none."""
    query = f"SELECT max({_LEFT_MS}) FROM controllers WHERE address = %s"  # noqa: S608 (our own)
    left_ms: float | None = connection.exec_driver_sql(query, (address,)).scalar_one()
    return left_ms if address else None


def renew(connection: Connection, controller: int, lease_ms: int, listening_ms: int) -> bool:
    """Prolong a lease and stamp listening time; False if somebody took over.

    An expired lease can be prolonged as long as nobody took over. The commit need not wait for
    the disk: what a crash of the database takes back only makes the lease shorter.
    """
    connection.execute(text("SET LOCAL synchronous_commit = off"))
    values = {"id": controller, "lease_ms": lease_ms, "listening_ms": listening_ms}
    return connection.execute(_RENEW, values).rowcount == 1


def write_stamp(connection: Connection, controller: int, listening_ms: int) -> None:
    """Stamp the listening time of a controller."""
    stamp = "UPDATE controllers SET listening_ms = %s WHERE id = %s"
    connection.exec_driver_sql(stamp, (listening_ms, controller))


def leave(connection: Connection, controller: int, listening_ms: int) -> None:
    """Delete a lease, and release everything held under it."""
    write_stamp(connection, controller, listening_ms)
    _reap(connection, "id = :id", id=controller)


def reap_controllers(connection: Connection) -> list[int]:
    """End the leases that expired; those with a commit under way are left to the next check.

    A controller that was paused within one keeps its locks until the database times it out. Were
    that waited for, this controller's renewals would wait behind it, and its own lease expire.

    The race: it was paused with a part of its transaction sent ahead. The database takes that for
    a statement that goes on, which no timeout ends; so its session is ended from here.
    """
    connection.execute(_END_STUCK)
    return _reap(connection, f"id IN ({_DEAD})")


def _reap(connection: Connection, condition: str, **values: object) -> list[int]:
    dead = connection.execute(
        text(f"DELETE FROM controllers WHERE {condition} RETURNING id, listening_ms"),  # noqa: S608
        values,
    ).all()
    for one in dead:
        connection.execute(_UNHOLD_STREAMS, {"id": one.id, "listening_ms": one.listening_ms})
        unhold_groups = "UPDATE reader_groups SET holder = NULL WHERE holder = %s"
        connection.exec_driver_sql(unhold_groups, (one.id,))
    if dead:
        notify(connection)
    return [one.id for one in dead]


def read_shares(connection: Connection) -> Shares:
    """Read which controllers there are, and how much each holds."""
    rows = connection.exec_driver_sql(_CONTROLLERS).all()
    return Shares(
        {row.id: row.address for row in rows},
        min((row.left_ms for row in rows), default=0.0),
        _counts(connection, streams),
        _counts(connection, reader_groups),
    )


def _counts(connection: Connection, table: Table) -> dict[int | None, int]:
    query = f"SELECT holder, count(*) AS held FROM {table.name} GROUP BY holder"  # noqa: S608
    return {row.holder: row.held for row in connection.exec_driver_sql(query)}


def take(
    connection: Connection, controller: int, streams: int, groups: int, *, listening_ms: int
) -> Sequence[int]:
    """Take some that have no holder, and return the keys of the streams; others take others at once."""
    check_lease(connection, controller)
    values = {"id": controller, "count": streams, "listening_ms": listening_ms}
    taken = connection.execute(_TAKE_STREAMS, values).scalars().all()
    connection.execute(_TAKE_GROUPS, {"id": controller, "count": groups})
    notify(connection)
    return taken


def check_lease(connection: Connection, controller: int) -> None:
    """Make this transaction fail unless the lease is in force, and last until it is over."""
    connection.exec_driver_sql("SELECT tidegauge_check_lease(%s)", (controller,))


def await_commits(connection: Connection, controller: int) -> None:
    """Wait until no transaction of a controller is under way, on whatever connection."""
    query = "SELECT 1 FROM controllers WHERE id = %s FOR UPDATE"
    connection.exec_driver_sql(query, (controller,))


def release_stream(connection: Connection, stream_key: int, *, listening_ms: int) -> None:
    """Release a stream, for another controller to take."""
    connection.exec_driver_sql(
        "UPDATE streams SET holder = NULL, listening_ms = listening_ms + %s WHERE key = %s",
        (listening_ms, stream_key),
    )
    notify(connection)


def release_group(connection: Connection, name: StreamName) -> None:
    """Release a reader group, for another controller to take."""
    connection.exec_driver_sql(
        "UPDATE reader_groups SET holder = NULL WHERE scope = %s AND reader_group = %s",
        (name.scope, name.stream),
    )
    notify(connection)


def find_holder(connection: Connection, table: Table, name: StreamName) -> Found | None:
    """Return the holder of a stream or reader group; None if it is not there."""
    query = text(
        f"SELECT holder, address FROM {table.name} LEFT JOIN controllers ON id = holder "  # noqa: S608
        f"WHERE scope = :scope AND {_NAMES[table]} = :name"
    )
    row = connection.execute(query, {"scope": name.scope, "name": name.stream}).first()
    return None if row is None else Found(row.holder or 0, row.address or "")


def new_stream_key(connection: Connection) -> int:
    """Choose the key of a new stream."""
    return int(connection.exec_driver_sql("SELECT nextval('stream_keys')").scalar_one())


def held_streams(connection: Connection, controller: int) -> Sequence[int]:
    """List the keys of the streams that a controller holds."""
    query = text("SELECT key FROM streams WHERE holder = :id ORDER BY key")
    return connection.execute(query, {"id": controller}).scalars().all()


def notify(connection: Connection) -> None:
    """Notify all controllers once this transaction is committed."""
    connection.exec_driver_sql(f"NOTIFY {CHANNEL}")
