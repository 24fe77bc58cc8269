"""Rows of streams and of listening time, and what is listed or removed whatever it is.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Iterable, Sequence
from secrets import token_bytes
from typing import Any

import sqlalchemy as sa

from controller.database.statements import (
    delete_rows,
    insert_rows,
    replace_rows,
)
from controller.schema import changelog, deleted_streams, listening, streams

_NO_STREAM, _NO_ENTRY = -1, 0
_ROOM_BYTES = 8_192  # two pages of SQLite's: more than the free part of one could take


def insert_stream(connection: sa.Connection, values: dict[str, Any]) -> None:
    """Store a new stream."""
    connection.execute(sa.insert(streams).values(values))


def update_stream(connection: sa.Connection, stream_key: int, values: dict[str, Any]) -> None:
    """Store new settings or a new topology of a stream."""
    connection.execute(sa.update(streams).where(streams.c.key == stream_key).values(values))


def delete_stream(connection: sa.Connection, stream_key: int) -> None:
    """Delete a stream; what belonged to it is left to `purge`."""
    connection.execute(sa.delete(streams).where(streams.c.key == stream_key))
    connection.execute(sa.insert(deleted_streams).values(key=stream_key))


def has_deleted_streams(connection: sa.Connection) -> bool:
    """Return whether anything is left to `purge`."""
    return connection.scalar(sa.select(deleted_streams.c.key).limit(1)) is not None


def purge(connection: sa.Connection, tables: Iterable[sa.Table], limit: int) -> bool:
    """Remove some rows of one deleted stream, and its key after the last; False if none is left."""
    key = connection.scalar(sa.select(deleted_streams.c.key).limit(1))
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
