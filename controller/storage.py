"""Rows of streams, marks, writers and reports; takes and returns values of the core.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
import orjson
from sqlalchemy import (
    Connection,
    Row,
    Table,
    bindparam,
    collate,
    delete,
    func,
    insert,
    select,
    tuple_,
    update,
)

from controller.database.statements import delete_rows, insert_rows, replace_rows, update_rows
from controller.schema import (
    deleted_streams,
    listening,
    marks,
    reader_groups,
    report_pages,
    streams,
    writers,
)
from tidegauge.changes import Changes, StoredClock, StoredPage, StoredReport, StoredWriter
from tidegauge.marks import Mark
from tidegauge.names import StreamName
from tidegauge.topology import Position

_NAME_COLUMNS = {streams: ("scope", "stream"), reader_groups: ("scope", "reader_group")}
_IN_PARTS = {"yield_per": 1_000}
_NO_STREAM = 0
_ROOM_BYTES = 8_192
_dump_json = msgspec.json.Encoder().encode
_load_reports = msgspec.json.Decoder(list[StoredReport]).decode


def dump_position(position: Position) -> str:
    """Write a position as JSON text."""
    return orjson.dumps(position, option=orjson.OPT_NON_STR_KEYS).decode()


class _Numbers(dict[str, int]):
    """Numbers of segments by their text: looked up, and kept in memory, once for all rows."""

    def __missing__(self, text: str) -> int:
        number = self[text] = int(text)
        return number


_numbers = _Numbers()


def load_position(text: str) -> dict[int, int]:
    """Read a position back."""
    return {_numbers[number]: offset for number, offset in orjson.loads(text).items()}


class StreamChanges(NamedTuple):
    """What happened to one stream's aggregation, and when.

    Attributes
    ----------
    stream_key
        Of the stream.
    changes
        What to store.
    wall_ms
        Wall clock, for the marks.
    """

    stream_key: int
    changes: Changes
    wall_ms: int


def write_changes(connection: Connection, streams_changed: Sequence[StreamChanges]) -> None:
    """Store what happened to the aggregations of some streams, each given once.

    Rows of one table go together, whichever stream they are of: statements cost more than rows.
    """
    _write_pages(connection, streams_changed)
    _write_writers(connection, streams_changed)
    mark_values = [
        (key, one.revision, one.lower, one.upper, dump_position(one.cut), wall_ms)
        for key, changes, wall_ms in streams_changed
        for one in changes.marks
    ]
    insert_rows(connection, marks, mark_values)
    for key, changes, _ in streams_changed:
        if changes.counters is not None:
            reporters, forgotten = changes.counters
            counters = {"reporters": reporters, "forgotten_incarnation": forgotten}
            update_stream(connection, key, counters)


def _write_pages(connection: Connection, streams_changed: Sequence[StreamChanges]) -> None:
    pages = [
        (key, changes.page.number, _dump_json(changes.page.reports).decode())
        for key, changes, _ in streams_changed
        if changes.page is not None
    ]
    insert_rows(connection, report_pages, pages)
    given_up = [
        (key, page) for key, changes, _ in streams_changed for page in changes.pages_given_up
    ]
    delete_rows(connection, report_pages, given_up)


def _write_writers(connection: Connection, streams_changed: Sequence[StreamChanges]) -> None:
    for key, changes, _ in streams_changed:
        if changes.forgotten:
            connection.execute(
                delete(writers).where(
                    writers.c.stream_key == key, writers.c.writer.in_(changes.forgotten)
                )
            )
    rows = [
        _writer_row(key, one) for key, changes, _ in streams_changed for one in changes.writers
    ]
    replace_rows(connection, writers, rows)
    holds = [
        (key, name, since)
        for key, changes, _ in streams_changed
        for name, since in changes.holds.items()
    ]
    update_rows(connection, writers, ("stream_key", "writer", "hold_since_ms"), holds)


def _writer_row(stream_key: int, one: StoredWriter) -> tuple[Any, ...]:
    row = one._replace(
        position=dump_position(one.position),  # type: ignore[arg-type]
        former_position=dump_position(one.former_position),  # type: ignore[arg-type]
    )
    return (stream_key, *row)


def read_clock(connection: Connection, stream: Row[Any]) -> StoredClock:
    """Read everything that `write_changes` stored for a stream, rows as they are asked for."""
    return StoredClock(
        newest=newest_mark(connection, stream.key),
        marked_ms=_newest_created_ms(connection, stream.key),
        reporters=stream.reporters,
        forgotten_incarnation=stream.forgotten_incarnation,
        writers=_read_writers(connection, stream.key),
        pages=_read_pages(connection, stream.key),
    )


def _read_writers(connection: Connection, stream_key: int) -> Iterator[StoredWriter]:
    columns = [writers.c[name] for name in StoredWriter._fields]
    rows = connection.execute(
        select(*columns).where(writers.c.stream_key == stream_key), execution_options=_IN_PARTS
    )
    for row in rows:
        stored = StoredWriter(*row)
        yield stored._replace(
            position=load_position(row.position),
            former_position=load_position(row.former_position),
        )


def _read_pages(connection: Connection, stream_key: int) -> Iterator[StoredPage]:
    rows = connection.execute(
        select(report_pages.c.page, report_pages.c.reports)
        .where(report_pages.c.stream_key == stream_key)
        .order_by(report_pages.c.page),
        execution_options=_IN_PARTS,
    )
    for number, text in rows:
        yield StoredPage(number, _load_reports(text))


def insert_stream(connection: Connection, values: dict[str, Any]) -> None:
    """Store a new stream."""
    connection.execute(insert(streams).values(reporters=0, forgotten_incarnation=0, **values))


def update_stream(connection: Connection, stream_key: int, values: dict[str, Any]) -> None:
    """Store new settings or a new topology of a stream."""
    connection.execute(update(streams).where(streams.c.key == stream_key).values(values))


def write_offsets(connection: Connection, offsets: Sequence[tuple[int, int]]) -> None:
    """Store how far streams, by key, are beyond the listening clock of their holder, ms."""
    update_rows(connection, streams, ("key", "listening_ms"), offsets)


def delete_stream(connection: Connection, stream_key: int) -> None:
    """Delete a stream; what belonged to it is left to `purge`."""
    connection.execute(delete(streams).where(streams.c.key == stream_key))
    connection.execute(insert(deleted_streams).values(key=stream_key))


def has_deleted_streams(connection: Connection) -> bool:
    """Look whether anything is left to `purge`."""
    return connection.scalar(select(deleted_streams.c.key).limit(1)) is not None


class Leftover(NamedTuple):
    """Some rows of a deleted stream.

    Attributes
    ----------
    stream_key
        Of the stream.
    table
        Where they are; None if nothing is left but the key.
    last
        The last of them: the rest of its primary key.
    """

    stream_key: int
    table: Table | None
    last: tuple[Any, ...]


def find_leftover(
    connection: Connection, tables: Iterable[Table], limit: int
) -> Leftover | None:
    """Find some rows of one deleted stream, in a table with a ``stream_key``.

    The race: other controllers do the same, or still merge chunks of it. A stream is done with
    when nothing of it is seen, for what is merged is seen before or after.
    """
    key = connection.scalar(
        select(deleted_streams.c.key).limit(1).with_for_update(skip_locked=True)
    )
    if key is None:
        return None
    for table in tables:
        if "stream_key" in table.columns:
            _, *order = table.primary_key.columns
            first = select(*order).where(table.c.stream_key == key).order_by(*order)
            found = connection.execute(first.limit(limit)).all()
            if found:
                return Leftover(key, table, tuple(found[-1]))
    return Leftover(key, None, ())


def purge(connection: Connection, leftover: Leftover) -> None:
    """Remove what was found of a deleted stream."""
    key, table, last = leftover
    if table is None:
        connection.execute(delete(deleted_streams).where(deleted_streams.c.key == key))
    else:
        _, *order = table.primary_key.columns
        until = tuple_(*order) <= tuple_(*last)
        connection.execute(delete(table).where(table.c.stream_key == key, until))


def last_stream_key(connection: Connection) -> int:
    """Find the highest key of a stream that has rows, deleted or not; 0 if there is none."""
    keys = (streams.c.key, deleted_streams.c.key)
    return max(connection.scalar(select(func.max(key))) or 0 for key in keys)


def read_streams(connection: Connection, key: int | None = None) -> Sequence[Row[Any]]:
    """Read the rows of all streams, or of one."""
    query = select(streams)
    return connection.execute(query if key is None else query.where(streams.c.key == key)).all()


def find_stream(connection: Connection, name: StreamName) -> Row[Any] | None:
    """Read the row of a stream."""
    query = select(streams).where(
        streams.c.scope == name.scope, streams.c.stream == name.stream
    )
    return connection.execute(query).first()


def read_names(
    connection: Connection, table: Table, after: StreamName | None, limit: int
) -> list[StreamName]:
    """List the names of streams or reader groups in order, after one."""
    scope, name = (table.c[one] for one in _NAME_COLUMNS[table])
    order = [collate(scope, "C"), collate(name, "C")]
    query = select(scope, name).order_by(*order).limit(limit)
    if after is not None:
        query = query.where(tuple_(*order) > tuple_(after.scope, after.stream))
    return [StreamName(*row) for row in connection.execute(query)]


def newest_mark(connection: Connection, stream_key: int) -> Mark | None:
    """Read the newest mark."""
    return _one_mark(
        connection,
        select(marks)
        .where(marks.c.stream_key == stream_key)
        .order_by(marks.c.revision.desc())
        .limit(1),
    )


def _newest_created_ms(connection: Connection, stream_key: int) -> int | None:
    return connection.scalar(
        select(marks.c.created_ms)
        .where(marks.c.stream_key == stream_key)
        .order_by(marks.c.revision.desc())
        .limit(1)
    )


def marks_after(
    connection: Connection, stream_key: int, revision: int, limit: int
) -> list[Mark]:
    """Read marks after a revision, oldest first."""
    rows = connection.execute(
        select(marks)
        .where(marks.c.stream_key == stream_key, marks.c.revision > revision)
        .order_by(marks.c.revision)
        .limit(limit)
    )
    return [_mark(row) for row in rows]


def first_mark_from(connection: Connection, stream_key: int, time: int) -> Mark | None:
    """Read the first mark with ``lower`` ≥ time."""
    return _one_mark(
        connection,
        select(marks)
        .where(marks.c.stream_key == stream_key, marks.c.lower >= time)
        .order_by(marks.c.lower)
        .limit(1),
    )


def newest_mark_with_upper_below(
    connection: Connection, stream_key: int, time: int
) -> Mark | None:
    """Read the newest mark with ``upper`` < time."""
    return _one_mark(
        connection,
        select(marks)
        .where(marks.c.stream_key == stream_key, marks.c.upper < time)
        .order_by(marks.c.upper.desc(), marks.c.revision.desc())
        .limit(1),
    )


class StoredMarks(Sequence[Mark]):
    """All marks of a stream as a sequence that reads only what is looked at, and that once.

    Indices are looked up by revision, so marks that were removed count as the next one there
    is; cuts rise, so a search finds the same mark.
    """

    def __init__(self, connection: Connection, stream_key: int) -> None:
        self._connection = connection
        of_stream = select(marks).where(marks.c.stream_key == stream_key)
        oldest = _one_mark(connection, of_stream.order_by(marks.c.revision).limit(1))
        newest = newest_mark(connection, stream_key)
        self._first = 1 if oldest is None else oldest.revision
        self._count = 0 if newest is None else newest.revision - self._first + 1
        self._seen: dict[int, Mark | None] = {}
        self._newest_by = (
            of_stream.where(marks.c.revision <= bindparam("by"))
            .order_by(marks.c.revision.desc())
            .limit(1)
        )

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 (no slices are asked for)
        if not 0 <= at < self._count:
            raise IndexError(at)
        if at not in self._seen:
            row = self._connection.execute(self._newest_by, {"by": self._first + at}).first()
            self._seen[at] = None if row is None else _mark(row)
        return self._seen[at]


class MarkRow(NamedTuple):
    """What tells whether a mark may go; its cut is read when it is looked at."""

    revision: int
    lower: int
    created_ms: int
    cut_text: str

    def cut(self) -> dict[int, int]:
        """Read its cut."""
        return load_position(self.cut_text)


def mark_rows(
    connection: Connection, stream_key: int, *, after: int, limit: int
) -> list[MarkRow]:
    """Read some marks after a revision, oldest first."""
    rows = connection.execute(
        select(marks.c.revision, marks.c.lower, marks.c.created_ms, marks.c.cut)
        .where(marks.c.stream_key == stream_key, marks.c.revision > after)
        .order_by(marks.c.revision)
        .limit(limit)
    )
    return [MarkRow(*row) for row in rows]


def delete_marks(connection: Connection, stream_key: int, revisions: Sequence[int]) -> None:
    """Delete some marks."""
    delete_rows(connection, marks, [(stream_key, revision) for revision in revisions])


def read_listening(connection: Connection) -> int:
    """Read the last stamp of listening time, ms."""
    stored = connection.execute(select(listening.c.listening_ms)).scalar()
    return 0 if stored is None else stored


def write_listening(connection: Connection, listening_ms: int) -> None:
    """Store a stamp of listening time."""
    replace_rows(connection, listening, [(1, listening_ms)])


def write_stamps(connection: Connection, stamps: Sequence[int]) -> None:
    """Store the last of some stamps of listening time."""
    write_listening(connection, stamps[-1])


def check_room(connection: Connection) -> None:
    """Store as much as some reports, and take it back; fails where they could not be stored."""
    incompressible = token_hex(_ROOM_BYTES // 2)
    insert_rows(connection, report_pages, [(_NO_STREAM, 0, incompressible)])
    delete_rows(connection, report_pages, [(_NO_STREAM, 0)])


def _one_mark(connection: Connection, query: Any) -> Mark | None:  # noqa: ANN401 (a select)
    row = connection.execute(query).first()
    return None if row is None else _mark(row)


def _mark(row: Row[Any]) -> Mark:
    return Mark(row.revision, row.lower, row.upper, load_position(row.cut))
