"""Rows of reader groups. Every function runs inside a transaction that its caller owns.

The race: marks are removed while a group comes to need them. Transactions that write follow one another, so
either the group is seen at its position, or it gets there after the marks went, like any reader who
comes late.
"""

from typing import Any, NamedTuple

from sqlalchemy import Connection, delete, insert, select, update

from controller.schema import reader_groups
from tidegauge.groups import GroupState
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.groups import GroupInfo, StateDocument
from tidegauge.wire.values import Answer


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
        """Return where it is in a stream and may go back to; nothing if it reads another."""
        if self.settings.stream_ids.get(stream) != stream_id:
            return {}
        return self.state.resumable(stream)


def read_groups(
    connection: Connection,
    *,
    stream_id: str | None = None,
    named: StreamName | None = None,
) -> list[StoredGroup]:
    """Read all groups, or those that read a stream, or the one of a name."""
    query = select(reader_groups)
    if stream_id is not None:
        query = query.where(reader_groups.c.settings.contains(stream_id, autoescape=True))
    if named is not None:
        query = query.where(*_is(named))
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
    """List where all groups that read a stream are, and may go back to."""
    groups = read_groups(connection, stream_id=stream_id)
    return [one for group in groups for one in group.resumable(stream, stream_id).values()]


def insert_group(connection: Connection, group: StoredGroup) -> None:
    """Store a new group."""
    row = {
        "scope": group.name.scope,
        "reader_group": group.name.stream,
        "settings": group.settings.model_dump_json(),
        **_version(group),
    }
    connection.execute(insert(reader_groups).values(row))


def update_group(connection: Connection, group: StoredGroup) -> None:
    """Store another revision of the shared state."""
    connection.execute(update(reader_groups).where(*_is(group.name)).values(**_version(group)))


def delete_group(connection: Connection, name: StreamName) -> None:
    """Delete a group."""
    connection.execute(delete(reader_groups).where(*_is(name)))


def _version(group: StoredGroup) -> dict[str, Any]:
    state = StateDocument.of(group.state).model_dump_json()
    return {"revision": group.revision, "state": state}


def _is(name: StreamName) -> tuple[Any, Any]:
    return reader_groups.c.scope == name.scope, reader_groups.c.reader_group == name.stream
