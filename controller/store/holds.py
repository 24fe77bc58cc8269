"""Rows of holds: who held the watermark of a stream, from when to when.

Every function runs inside a transaction that its caller owns.
"""

from typing import NamedTuple

import msgspec
from sqlalchemy import ColumnElement, Connection, case, delete, func, select, tuple_

from controller.database.statements import replace_rows
from controller.schema import holds
from tidegauge.holds import Hold

MOST = 10_000
"""Of a stream: the oldest go, `_AT_ONCE` at once."""
_AT_ONCE = 100


class Held(NamedTuple):
    """How much the watermark of a stream was held in a span of wall clock."""

    stream_key: int
    held_ms: int
    spans: int
    longest: Hold


def insert_holds(connection: Connection, ended: list[tuple[int, Hold]]) -> None:
    """Store spans that ended, of streams by their keys, and now and then drop the oldest of a stream."""
    rows = [(key, *msgspec.structs.astuple(hold)) for key, hold in ended]
    replace_rows(connection, holds, rows)
    for key, hold in ended:
        if hold.number % _AT_ONCE == 0:
            is_surplus = holds.c.number <= hold.number - MOST
            connection.execute(delete(holds).where(holds.c.stream_key == key, is_surplus))


def read_holds(
    connection: Connection,
    stream_key: int,
    *,
    since_ms: int,
    until_ms: int,
    before: int | None,
    limit: int,
) -> list[Hold]:
    """Read the newest spans that overlap one of wall clock, the newest first; those before a number."""
    query = select(holds).where(holds.c.stream_key == stream_key, *_overlap(since_ms, until_ms))
    if before is not None:
        query = query.where(holds.c.number < before)
    rows = connection.execute(query.order_by(holds.c.number.desc()).limit(limit))
    return [Hold(*row[1:]) for row in rows]


def read_held(connection: Connection, *, since_ms: int, until_ms: int) -> list[Held]:
    """Add up what counts of the spans of each stream that overlap one of wall clock."""
    begin = case((holds.c.since_ms < since_ms, since_ms), else_=holds.c.since_ms)
    inside = _least(holds.c.until_ms, until_ms) - begin
    counts = _least(holds.c.held_ms, inside)
    of_stream = holds.c.stream_key
    order = func.row_number().over(
        partition_by=of_stream, order_by=(counts.desc(), holds.c.number)
    )
    found = (
        select(
            holds,
            func.sum(counts).over(partition_by=of_stream).label("held"),
            func.count().over(partition_by=of_stream).label("spans"),
            order.label("place"),
        )
        .where(*_overlap(since_ms, until_ms))
        .subquery()
    )
    rows = connection.execute(select(found).where(found.c.place == 1))
    return [Held(row[0], int(row[-3]), row[-2], Hold(*row[1:-3])) for row in rows]


def read_first_reaching(connection: Connection, stream_key: int, time: int) -> Hold | None:
    """Read the span at whose end the watermark reached a time that it had not reached before."""
    query = (
        select(holds)
        .where(
            holds.c.stream_key == stream_key,
            holds.c.reached >= time,
            (holds.c.watermark < time) | holds.c.watermark.is_(None),
        )
        .order_by(holds.c.number)
        .limit(1)
    )
    row = connection.execute(query).first()
    return None if row is None else Hold(*row[1:])


def forget_holds(connection: Connection, *, before_ms: int, most: int) -> None:
    """Delete some spans that ended long ago, by wall clock: in one statement, since batches read nothing."""
    key = holds.c.stream_key, holds.c.number
    old = select(*key).where(holds.c.until_ms < before_ms).limit(most)
    connection.execute(delete(holds).where(tuple_(*key).in_(old)))


def _overlap(since_ms: int, until_ms: int) -> tuple[ColumnElement[bool], ...]:
    return holds.c.until_ms > since_ms, holds.c.since_ms < until_ms


def _least(one: ColumnElement[int], other: ColumnElement[int] | int) -> ColumnElement[int]:
    return case((one < other, one), else_=other)
