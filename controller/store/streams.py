"""Rows of streams and of listening time, and what is listed or removed whatever it is.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Callable, Iterable, Sequence
from secrets import token_bytes
from typing import Any

import sqlalchemy as sa

from controller.database.statements import (
    delete_rows,
    insert_if_free,
    insert_rows,
    replace_rows,
)
from controller.schema import changelog, deleted_streams, listening, reader_groups, streams
from tidegauge.names import StreamName

_NAME_COLUMNS = {streams: ("scope", "stream"), reader_groups: ("scope", "reader_group")}
_NO_STREAM, _NO_ENTRY = -1, 0
_ROOM_BYTES = 8_192  # two pages of SQLite's: more than the free part of one could take


def insert_stream(connection: sa.Connection, values: dict[str, Any]) -> Callable[[], bool]:
    """Store a new stream, unless its name is taken; the result says so after the commit."""
    return insert_if_free(connection, streams, _NAME_COLUMNS[streams], values)


def update_stream(connection: sa.Connection, stream_key: int, values: dict[str, Any]) -> None:
    """Store new settings or a new topology of a stream."""
    connection.execute(sa.update(streams).where(streams.c.key == stream_key).values(values))


def write_offsets(connection: sa.Connection, offsets: Sequence[tuple[int, int]]) -> None:
    """Store how far streams, by key, are beyond the clock of their holder, ms; PostgreSQL only."""
    connection.exec_driver_sql(
        "UPDATE streams SET listening_ms = row.ms "
        "FROM unnest(%s::integer[], %s::bigint[]) AS row(key, ms) WHERE streams.key = row.key",
        ([key for key, _ in offsets], [beyond_ms for _, beyond_ms in offsets]),
    )


def delete_stream(connection: sa.Connection, stream_key: int) -> None:
    """Delete a stream; what belonged to it is left to `purge`."""
    connection.execute(sa.delete(streams).where(streams.c.key == stream_key))
    connection.execute(sa.insert(deleted_streams).values(key=stream_key))


def has_deleted_streams(connection: sa.Connection) -> bool:
    """Return whether anything is left to `purge`."""
    return connection.scalar(sa.select(deleted_streams.c.key).limit(1)) is not None


def purge(connection: sa.Connection, tables: Iterable[sa.Table], limit: int) -> bool:
    """Remove some rows of one deleted stream, and its key after the last; False if none is left.

    The race: other controllers do the same, or still merge chunks of it. A stream is done with
    when nothing of it is seen, for what is merged is seen before or after.
    """
    key = connection.scalar(
        sa.select(deleted_streams.c.key).limit(1).with_for_update(skip_locked=True)
    )
    if key is None:
        return False
    for table in tables:
        if "stream_key" in table.columns:
            _, *order = table.primary_key.columns
            first = sa.select(*order).where(table.c.stream_key == key).order_by(*order)
            found = connection.execute(first.limit(limit)).all()
            if found:
                until = sa.tuple_(*order) <= sa.tuple_(*found[-1])
                connection.execute(sa.delete(table).where(table.c.stream_key == key, until))
                return True
    connection.execute(sa.delete(deleted_streams).where(deleted_streams.c.key == key))
    return True


def last_stream_key(connection: sa.Connection) -> int:
    """Return the highest key of a stream that has rows, deleted or not; 0 if there is none."""
    keys = (streams.c.key, deleted_streams.c.key)
    return max(connection.scalar(sa.select(sa.func.max(key))) or 0 for key in keys)


def read_streams(
    connection: sa.Connection, keys: Sequence[int] | None = None
) -> Sequence[sa.Row[Any]]:
    """Read the rows of all streams, or of those with certain keys."""
    query = sa.select(streams).order_by(streams.c.key)
    if keys is not None:
        query = query.where(streams.c.key.in_(keys))
    return connection.execute(query).all()


def find_stream(connection: sa.Connection, name: StreamName) -> sa.Row[Any] | None:
    """Read the row of a stream."""
    is_named = (streams.c.scope == name.scope) & (streams.c.stream == name.stream)
    return connection.execute(sa.select(streams).where(is_named)).first()


def read_names(
    connection: sa.Connection, table: sa.Table, after: StreamName | None, limit: int
) -> list[StreamName]:
    """List the names of streams or reader groups in order, after one."""
    scope, name = (table.c[one] for one in _NAME_COLUMNS[table])
    order = [sa.collate(scope, "C"), sa.collate(name, "C")]
    query = sa.select(scope, name).order_by(*order).limit(limit)
    if after is not None:
        query = query.where(sa.tuple_(*order) > sa.tuple_(after.scope, after.stream))
    return [StreamName(*row) for row in connection.execute(query)]


def read_listening(connection: sa.Connection) -> int:
    """Read the last stamp of listening time, ms."""
    stored = connection.execute(sa.select(listening.c.listening_ms)).scalar()
    return 0 if stored is None else stored


def write_stamps(connection: sa.Connection, stamps: Sequence[int]) -> None:
    """Store the last of some stamps of listening time, ms."""
    replace_rows(connection, listening, [(1, stamps[-1])])


def check_room(connection: sa.Connection) -> None:
    """Store as much as some reports, and take it back; fails where they could not be stored."""
    insert_rows(connection, changelog, [(_NO_STREAM, _NO_ENTRY, token_bytes(_ROOM_BYTES))])
    delete_rows(connection, changelog, [(_NO_STREAM, _NO_ENTRY)])
