"""Rows of reader groups. Every function runs inside a transaction that its caller owns.

The race: a controller removes marks, while another one, that holds a group, stores that it came
to need them. So whoever stores a group on PostgreSQL holds fast the rows of the streams that it
reads, and whoever removes marks has the row of their stream alone (`keep_groups_still`): either
the group is seen where it stands, or it gets there after the marks went, like any reader who
comes late. SQLite has one transaction that writes at a time.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, func, select, tuple_, update

from controller.database.statements import insert_if_free
from controller.schema import reader_groups, streams
from tidegauge.groups import GroupState
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.groups import GroupInfo, StateDocument
from tidegauge.wire.values import Answer

_NAME = ("scope", "reader_group")
_HOLD_FAST = "SELECT 1 FROM streams WHERE stream_id = ANY(%s) FOR KEY SHARE"


class GroupSettings(Answer):
    """What a group was created with, as it is stored."""

    streams: list[str]
    stream_ids: dict[str, str]
    heartbeat_ms: int
    dead_after_ms: int


class StoredGroup(NamedTuple):
    """A group as of one revision of its shared state."""

    name: StreamName
    settings: GroupSettings
    state: GroupState
    revision: int = 1

    @property
    def etag(self) -> str:
        """The version of the shared state."""
        return f'"{self.revision}"'

    def describe(self) -> GroupInfo:
        """Describe it for callers."""
        return GroupInfo(
            group=str(self.name),
            revision=self.revision,
            state=StateDocument.of(self.state),
            **self.settings.model_dump(),
        )

    def after(self, state: GroupState) -> "StoredGroup":
        """Make the next revision."""
        return self._replace(state=state, revision=self.revision + 1)

    def resumable(self, stream: str, stream_id: str) -> dict[str | None, Position]:
        """Return where it stands in a stream and may go back to; nothing if it reads another."""
        if self.settings.stream_ids.get(stream) != stream_id:
            return {}
        return self.state.resumable(stream)


def read_groups(
    connection: Connection,
    *,
    holder: int | None = None,
    stream_id: str | None = None,
    named: Sequence[StreamName] | None = None,
) -> list[StoredGroup]:
    """Read all groups, or those of a holder, that read a stream, or with certain names."""
    query = select(reader_groups)
    if holder is not None:
        query = query.where(reader_groups.c.holder == holder)
    if stream_id is not None:
        query = query.where(reader_groups.c.settings.contains(stream_id, autoescape=True))
    if named is not None:
        name = tuple_(reader_groups.c.scope, reader_groups.c.reader_group)
        query = query.where(name.in_([(one.scope, one.stream) for one in named]))
    return [
        StoredGroup(
            StreamName(row.scope, row.reader_group),
            GroupSettings.model_validate_json(row.settings),
            StateDocument.model_validate_json(row.state).to_state(),
            row.revision,
        )
        for row in connection.execute(query)
    ]


def read_positions(connection: Connection, stream: str, stream_id: str) -> list[Position]:
    """List where all groups that read a stream stand, and may go back to."""
    groups = read_groups(connection, stream_id=stream_id)
    return [one for group in groups for one in group.resumable(stream, stream_id).values()]


def keep_groups_still(connection: Connection, stream_key: int) -> bool:
    """Keep others from storing a group of a stream until this transaction is over.

    Waits for nobody: False if one is just being stored, or the stream is gone.
    """
    query = select(streams.c.key).where(streams.c.key == stream_key)
    return connection.execute(query.with_for_update(skip_locked=True)).first() is not None


def count_groups(connection: Connection) -> int:
    """Count all groups."""
    return connection.execute(select(func.count()).select_from(reader_groups)).scalar_one()


def insert_group(
    connection: Connection, group: StoredGroup, holder: int | None
) -> Callable[[], bool]:
    """Store a new group, unless its name is taken; the result says so after the commit."""
    _hold_streams_fast(connection, group)
    row = {
        "scope": group.name.scope,
        "reader_group": group.name.stream,
        "settings": group.settings.model_dump_json(),
        "holder": holder,
        **_version(group),
    }
    return insert_if_free(connection, reader_groups, _NAME, row)


def update_group(connection: Connection, group: StoredGroup) -> None:
    """Store another revision of the shared state."""
    _hold_streams_fast(connection, group)
    connection.execute(update(reader_groups).where(*_is(group.name)).values(**_version(group)))


def delete_group(connection: Connection, name: StreamName) -> None:
    """Delete a group."""
    connection.execute(delete(reader_groups).where(*_is(name)))


def _hold_streams_fast(connection: Connection, group: StoredGroup) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(_HOLD_FAST, (list(group.settings.stream_ids.values()),))


def _version(group: StoredGroup) -> dict[str, Any]:
    state = StateDocument.of(group.state).model_dump_json()
    return {"revision": group.revision, "state": state}


def _is(name: StreamName) -> tuple[Any, Any]:
    return reader_groups.c.scope == name.scope, reader_groups.c.reader_group == name.stream
