"""Rows of streams, marks, writers and reports; takes and returns values of the core.

Every function runs inside a transaction that its caller owns.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import orjson
from sqlalchemy import Connection, Row, Table, delete, insert, select, update
from sqlalchemy.dialects.sqlite import insert as upsert

from controller.schema import listening, marks, reports, streams, writers
from tidegauge.changes import Changes, StoredClock, StoredReport, StoredWriter
from tidegauge.marks import Mark
from tidegauge.topology import Position

_R = TypeVar("_R")
_ROWS_A_STATEMENT = 64


def dump_position(position: Position) -> str:
    """Write a position as JSON text."""
    return orjson.dumps(position, option=orjson.OPT_NON_STR_KEYS).decode()


def load_position(text: str) -> dict[int, int]:
    """Read a position back."""
    return {int(number): offset for number, offset in orjson.loads(text).items()}


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert whole rows, values in the order of the table's columns, as fast as can be.

    Many rows go into one statement: SQLite's driver gives up and takes back the interpreter's
    lock once a statement, or once a row of ``executemany``, and waits for it each time.
    """
    for some in _parts(rows):
        text = _insert_text(table, len(some))
        connection.exec_driver_sql(text, tuple(chain.from_iterable(some)))


def replace_rows(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert whole rows, or replace those of the same primary key; as `insert_rows`."""
    for some in _parts(rows):
        text = _insert_text(table, len(some)) + _replacing(table)
        connection.exec_driver_sql(text, tuple(chain.from_iterable(some)))


def _parts(rows: Sequence[_R]) -> Iterator[Sequence[_R]]:
    for start in range(0, len(rows), _ROWS_A_STATEMENT):
        yield rows[start : start + _ROWS_A_STATEMENT]


@cache
def _insert_text(table: Table, count: int) -> str:
    row = f"({_places(len(table.columns))})"
    rows = ", ".join([row] * count)
    return f"INSERT INTO {table.name} VALUES {rows}"  # noqa: S608 (our own names)


@cache
def _replacing(table: Table) -> str:
    keys = ", ".join(column.name for column in table.primary_key)
    values = ", ".join(
        f"{column.name} = excluded.{column.name}"
        for column in table.columns
        if not column.primary_key
    )
    return f" ON CONFLICT ({keys}) DO UPDATE SET {values}"


def _places(count: int) -> str:
    return ", ".join(["?"] * count)


def write_changes(
    connection: Connection, stream_key: int, changes: Changes, *, wall_ms: int
) -> None:
    """Store what happened to a stream's aggregation."""
    insert_rows(
        connection,
        reports,
        [
            (stream_key, serial, writer, incarnation, time, dump_position(position))
            for serial, writer, incarnation, time, position in changes.reports
        ],
    )
    _merge_reports(connection, stream_key, changes)
    _write_writers(connection, stream_key, changes)
    insert_rows(
        connection,
        marks,
        [
            (stream_key, one.revision, one.lower, one.upper, dump_position(one.cut), wall_ms)
            for one in changes.marks
        ],
    )
    if changes.counters is not None:
        reporters, forgotten = changes.counters
        connection.execute(
            update(streams)
            .where(streams.c.key == stream_key)
            .values(reporters=reporters, forgotten_incarnation=forgotten)
        )


def _merge_reports(connection: Connection, stream_key: int, changes: Changes) -> None:
    if changes.merged:
        connection.exec_driver_sql(
            "UPDATE reports SET position = ? WHERE stream_key = ? AND serial = ?",
            [(dump_position(one.position), stream_key, one.serial) for one in changes.merged],
        )
    for serials in _parts(sorted(changes.dropped)):
        connection.exec_driver_sql(
            "DELETE FROM reports WHERE stream_key = ? "  # noqa: S608 (only places)
            f"AND serial IN ({_places(len(serials))})",
            (stream_key, *serials),
        )


def _write_writers(connection: Connection, stream_key: int, changes: Changes) -> None:
    rows = [_writer_row(stream_key, one) for one in changes.writers]
    replace_rows(connection, writers, rows)
    if changes.holds:
        connection.exec_driver_sql(
            "UPDATE writers SET hold_since_ms = ? WHERE stream_key = ? AND writer = ?",
            [(since, stream_key, name) for name, since in changes.holds.items()],
        )
    for table in (writers, reports) if changes.forgotten else ():
        connection.execute(
            delete(table).where(
                table.c.stream_key == stream_key, table.c.writer.in_(changes.forgotten)
            )
        )


def _writer_row(stream_key: int, one: StoredWriter) -> tuple[Any, ...]:
    row = one._replace(
        position=dump_position(one.position),  # type: ignore[arg-type]
        former_position=dump_position(one.former_position),  # type: ignore[arg-type]
    )
    return (stream_key, *row)


def read_clock(connection: Connection, stream: Row[Any]) -> StoredClock:
    """Read everything that `write_changes` stored for a stream."""
    return StoredClock(
        newest=newest_mark(connection, stream.key),
        marked_ms=_newest_created_ms(connection, stream.key),
        reporters=stream.reporters,
        forgotten_incarnation=stream.forgotten_incarnation,
        writers=list(_read_writers(connection, stream.key)),
        reports=list(_read_reports(connection, stream.key)),
    )


def _read_writers(connection: Connection, stream_key: int) -> Iterator[StoredWriter]:
    rows = connection.execute(select(writers).where(writers.c.stream_key == stream_key))
    for row in rows.mappings():
        values = {name: row[name] for name in StoredWriter._fields}
        values["position"] = load_position(values["position"])
        values["former_position"] = load_position(values["former_position"])
        yield StoredWriter(**values)


def _read_reports(connection: Connection, stream_key: int) -> Iterator[StoredReport]:
    rows = connection.execute(
        select(
            reports.c.serial,
            reports.c.writer,
            reports.c.incarnation,
            reports.c.time,
            reports.c.position,
        )
        .where(reports.c.stream_key == stream_key)
        .order_by(reports.c.serial)
    )
    for serial, writer, incarnation, time, position in rows:
        yield StoredReport(serial, writer, incarnation, time, load_position(position))


def insert_stream(connection: Connection, values: dict[str, Any]) -> None:
    """Store a new stream."""
    connection.execute(insert(streams).values(reporters=0, forgotten_incarnation=0, **values))


def update_stream(connection: Connection, stream_key: int, values: dict[str, Any]) -> None:
    """Store new settings or a new topology of a stream."""
    connection.execute(update(streams).where(streams.c.key == stream_key).values(values))


def delete_stream(connection: Connection, stream_key: int, tables: Iterable[Table]) -> None:
    """Delete a stream and its rows in all tables that have a ``stream_key``."""
    for table in tables:
        if "stream_key" in table.columns:
            connection.execute(delete(table).where(table.c.stream_key == stream_key))
    connection.execute(delete(streams).where(streams.c.key == stream_key))


def read_streams(connection: Connection, key: int | None = None) -> Sequence[Row[Any]]:
    """Read the rows of all streams, or of one."""
    query = select(streams)
    return connection.execute(query if key is None else query.where(streams.c.key == key)).all()


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
        self._of_stream = select(marks).where(marks.c.stream_key == stream_key)
        oldest = _one_mark(connection, self._of_stream.order_by(marks.c.revision).limit(1))
        newest = newest_mark(connection, stream_key)
        self._first = 1 if oldest is None else oldest.revision
        self._count = 0 if newest is None else newest.revision - self._first + 1
        self._seen: dict[int, Mark | None] = {}

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 (no slices are asked for)
        if not 0 <= at < self._count:
            raise IndexError(at)
        if at not in self._seen:
            before = self._of_stream.where(marks.c.revision <= self._first + at)
            newest = before.order_by(marks.c.revision.desc()).limit(1)
            self._seen[at] = _one_mark(self._connection, newest)
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
    connection.execute(
        delete(marks).where(marks.c.stream_key == stream_key, marks.c.revision.in_(revisions))
    )


def read_listening(connection: Connection) -> int:
    """Read the last stamp of listening time, ms."""
    stored = connection.execute(select(listening.c.listening_ms)).scalar()
    return 0 if stored is None else stored


def write_listening(connection: Connection, listening_ms: int) -> None:
    """Store a stamp of listening time."""
    connection.execute(
        upsert(listening)
        .values(id=1, listening_ms=listening_ms)
        .on_conflict_do_update(
            index_elements=[listening.c.id], set_={"listening_ms": listening_ms}
        )
    )


def _one_mark(connection: Connection, query: Any) -> Mark | None:  # noqa: ANN401 (a select)
    row = connection.execute(query).first()
    return None if row is None else _mark(row)


def _mark(row: Row[Any]) -> Mark:
    return Mark(row.revision, row.lower, row.upper, load_position(row.cut))
