"""Rows of marks, and positions as they are stored: JSON objects with segment numbers as keys.

Every function runs inside a transaction that its caller owns.
"""

from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple

import orjson
from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Row,
    Select,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
)

from controller.database.statements import delete_rows
from controller.schema import marks, streams
from tidegauge.event_time import END_OF_TIME
from tidegauge.marks import Mark
from tidegauge.topology import Position

_lower, _upper, _marked = attrgetter("lower"), attrgetter("upper"), attrgetter("marked_ms")


class Steps(NamedTuple):
    """Columns with an entry for each step of wall clock that has a mark."""

    marked_ms: Sequence[int] = ()
    revision: Sequence[int] = ()
    lower: Sequence[int] = ()
    upper: Sequence[int] = ()
    age_ms: Sequence[int | None] = ()
    stood_ms: Sequence[int | None] = ()


class StoredMarks(Sequence[Mark]):
    """All marks of a stream, as a sequence that reads only what is asked for, and that once.

    Indices are found by revision, so marks that were removed count as the one before them
    that is there. Lower bounds, upper bounds and cuts rise with the revision, so a search finds
    the same mark. Marks newer than the revision ``up_to`` are left out.
    """

    def __init__(
        self, connection: Connection, stream_key: int, *, up_to: int | None = None
    ) -> None:
        self._connection = connection
        self._of_stream = select(marks).where(marks.c.stream_key == stream_key)
        self._whole_stream = self._of_stream
        if up_to is not None:
            self._of_stream = self._of_stream.where(marks.c.revision <= up_to)
        self._seen: dict[int, Mark] = {}

    def after(self, revision: int, limit: int) -> list[Mark]:
        """Read marks after a revision, oldest first."""
        query = self._of_stream.where(marks.c.revision > revision)
        rows = self._connection.execute(query.order_by(marks.c.revision).limit(limit))
        return [_mark(row) for row in rows]

    def last(self, count: int) -> list[Mark]:
        """Read the newest marks, oldest first."""
        query = self._of_stream.order_by(marks.c.revision.desc()).limit(count)
        return [_mark(row) for row in reversed(self._connection.execute(query).all())]

    def steps(self, since_ms: int, until_ms: int, step_ms: int, *, with_age: bool) -> Steps:
        """Read the last mark of each step of wall clock, the one in force at the beginning first.

        All that a mark has rises with its revision, so the greatest of each is of the same mark. How
        old the watermark was, and for how long it stood, is known where the mark before is stored.
        The final mark is none of them.
        """
        at = bisect_left(self, since_ms, key=_marked)
        first = self[max(0, at - 1)].revision if len(self) else 0
        at_ms = marks.c.created_ms

        def before(column: Column[int]) -> ColumnElement[int]:
            return func.lag(column).over(order_by=marks.c.revision)

        is_next = before(marks.c.revision) == marks.c.revision - 1
        stood = case((is_next, at_ms - before(at_ms)))
        age = case((is_next, at_ms - before(marks.c.lower))) if with_age else null()
        some = (
            self._of_stream.with_only_columns(
                at_ms,
                marks.c.revision,
                marks.c.lower,
                marks.c.upper,
                age.label("age"),
                stood.label("stood"),
            )
            .where(marks.c.revision >= first, at_ms <= until_ms, marks.c.lower < END_OF_TIME)
            .subquery()
        )
        passed = some.c.created_ms - literal_column(str(since_ms), BigInteger)
        step = literal_column(str(step_ms), BigInteger)
        query = (
            select(*map(func.max, some.c))
            .group_by(case((passed <= 0, -1), else_=passed // step))
            .order_by(func.max(some.c.revision))
        )
        rows = self._connection.execute(query).all()
        return Steps(*(list(column) for column in zip(*rows, strict=True))) if rows else Steps()

    def first_from(self, time: int) -> Mark | None:
        """Return the first mark with ``lower`` ≥ time."""
        at = bisect_left(self, time, key=_lower)
        return self[at] if at < len(self) else None

    def newest_with_upper_below(self, time: int) -> Mark | None:
        """Return the newest mark with ``upper`` < time."""
        at = bisect_left(self, time, key=_upper)
        return self[at - 1] if at else None

    def __len__(self) -> int:
        newest = self._newest_row
        return 0 if newest is None else newest.revision - self._first_revision + 1

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 (no slices are asked for)
        if not 0 <= at < len(self):
            raise IndexError(at)
        if at not in self._seen:
            by = {"by": self._first_revision + at}
            self._seen[at] = _mark(self._connection.execute(self._query_by, by).one())
        return self._seen[at]

    @cached_property
    def _query_by(self) -> Select[Any]:
        # Not with `up_to` besides: of two bounds SQLite may begin at the farther one.
        by_revision = self._whole_stream.where(marks.c.revision <= bindparam("by"))
        return by_revision.order_by(marks.c.revision.desc()).limit(1)

    @cached_property
    def _first_revision(self) -> int:
        oldest = self._of_stream.order_by(marks.c.revision).limit(1)
        row = self._connection.execute(oldest).first()
        return 1 if row is None else row.revision

    @cached_property
    def _newest_row(self) -> Row[Any] | None:
        query = self._of_stream.order_by(marks.c.revision.desc()).limit(1)
        return self._connection.execute(query).first()


def read_newest(connection: Connection, first_key: int, last_key: int) -> dict[int, Mark]:
    """Read the newest mark of each stream with a key from the first to the last, if it has any.

    Column by column: so the database looks each up by its key, however many marks there are.
    """
    newest = select(marks).where(marks.c.stream_key == streams.c.key)
    newest = newest.order_by(marks.c.revision.desc()).limit(1)
    columns = (
        newest.with_only_columns(column).scalar_subquery().label(column.name)
        for column in marks.c
        if column is not marks.c.stream_key
    )
    query = select(streams.c.key, *columns).where(streams.c.key.between(first_key, last_key))
    rows = connection.execute(query)
    return {row.key: _mark(row) for row in rows if row.revision is not None}


class MarkRow(NamedTuple):
    """What decides whether a mark may go; its cut is read when it is needed."""

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


def _mark(row: Row[Any]) -> Mark:
    return Mark(row.revision, row.lower, row.upper, load_position(row.cut), row.created_ms)


def dump_position(position: Position) -> str:
    """Write a position as JSON text."""
    return orjson.dumps(position, option=orjson.OPT_NON_STR_KEYS).decode()


def load_position(text: str) -> dict[int, int]:
    """Read a position back."""
    return {_numbers[number]: offset for number, offset in orjson.loads(text).items()}


class _Numbers(dict[str, int]):
    """Numbers of segments by their text: parsed, and kept in memory, once for all rows."""

    def __missing__(self, text: str) -> int:
        number = self[text] = int(text)
        return number


_numbers = _Numbers()
