"""Rows of chunks and append sequences. Every function runs in its caller's transaction."""

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    ScalarSelect,
    Select,
    bindparam,
    column,
    delete,
    func,
    select,
    values,
)

from controller.database.statements import delete_rows, insert_rows, replace_rows
from controller.log.codec import first_reaching
from controller.schema import append_sequences, chunks

CHUNKS_LISTED = 1_000  # a list takes milliseconds of a reader thread
_KEY = bindparam("key", type_=Integer)


class Chunk(NamedTuple):
    """Events of one segment as they are stored."""

    segment: int
    first_offset: int
    events: int
    running_time: int | None
    data: bytes
    append_time: int


class LastAppend(NamedTuple):
    """What a writer last appended to a segment."""

    incarnation: int
    sequence: int
    next_offset: int


class AppendOutcome(NamedTuple):
    """Where an append ended up."""

    next_offset: int
    sequence: int
    duplicate: bool


class ChunkRow(NamedTuple):
    """A stored chunk without its data."""

    first_offset: int
    events: int
    running_time: int | None
    size: int


class ChunksGoneError(Exception):
    """Chunks that were read a moment ago are not there any more."""


def read_last_appends(
    connection: Connection, stream_key: int
) -> dict[tuple[str, int], LastAppend]:
    """Read what the writers of a stream appended last, by writer and segment."""
    rows = connection.execute(
        select(append_sequences).where(append_sequences.c.stream_key == stream_key)
    )
    return {
        (row.writer, row.segment): LastAppend(row.incarnation, row.sequence, row.next_offset)
        for row in rows
    }


def read_ends(connection: Connection, stream_key: int) -> dict[int, tuple[int, int | None]]:
    """Read the tail and the greatest event time of each segment that has events."""
    rows = connection.execute(_ends(), {"key": stream_key})
    return {row.segment: (row.tail, row.running_time) for row in rows}


@cache
def _ends() -> Select[Any]:
    """Read the last chunk of each segment of the stream ``key``, and no other.

    By two searches of an index each: a database might rather read a whole table to join it. The
    segments are found by searching for the next one each time; NULL ends them.
    """
    first = select(func.min(chunks.c.segment).label("segment")).where(
        chunks.c.stream_key == _KEY
    )
    used = first.cte(recursive=True)
    following = first.where(chunks.c.segment > used.c.segment).scalar_subquery()
    used = used.union_all(select(following).where(used.c.segment.is_not(None)))
    in_segment = (chunks.c.stream_key == _KEY) & (chunks.c.segment == used.c.segment)
    backwards = chunks.c.first_offset.desc()

    def of_last(value: ColumnElement[int | None]) -> ScalarSelect[int | None]:
        return select(value).where(in_segment).order_by(backwards).limit(1).scalar_subquery()

    return select(
        used.c.segment,
        of_last(chunks.c.first_offset + chunks.c.events).label("tail"),
        of_last(chunks.c.running_time).label("running_time"),
    ).where(used.c.segment.is_not(None))


def write_appends(
    connection: Connection,
    stream_key: int,
    appended: Sequence[Chunk],
    sequences: dict[tuple[str, int], LastAppend],
) -> None:
    """Store what was appended, and by whom."""
    insert_rows(
        connection,
        chunks,
        [(stream_key, *one[:4], len(one.data), *one[4:]) for one in appended],
    )
    replace_rows(
        connection,
        append_sequences,
        [(stream_key, *appender, *last) for appender, last in sequences.items()],
    )


def delete_truncated(
    connection: Connection, stream_key: int, segment: int, first: int, limit: int
) -> bool:
    """Delete some chunks that lie before the first offset of a segment; False if none is left."""
    in_segment = _in_segment(stream_key, segment)
    lies_before = chunks.c.first_offset + chunks.c.events <= first
    some = (
        select(chunks.c.first_offset)
        .where(in_segment, chunks.c.first_offset < first, lies_before)
        .order_by(chunks.c.first_offset)
        .limit(limit)
        .subquery("some")
    )
    last = connection.scalar(select(func.max(some.c.first_offset)))
    if last is None:
        return False
    connection.execute(delete(chunks).where(in_segment, chunks.c.first_offset <= last))
    return True


def appended_before(connection: Connection, stream_key: int, time_ms: int) -> dict[int, int]:
    """Find how much of each segment was appended before a wall clock, in whole chunks."""
    of_stream = chunks.c.stream_key == stream_key
    old = (
        select(chunks.c.segment, func.max(chunks.c.first_offset + chunks.c.events))
        .where(of_stream, chunks.c.append_time < time_ms)
        .group_by(chunks.c.segment)
    )
    young = (
        select(chunks.c.segment, func.min(chunks.c.first_offset))
        .where(of_stream, chunks.c.append_time >= time_ms)
        .group_by(chunks.c.segment)
    )
    ends = dict(connection.execute(old).all())
    for segment, first in connection.execute(young):
        # Younger chunks may come first, where a clock was set back.
        if segment in ends:
            ends[segment] = min(ends[segment], first)
    return ends


def appended_from(connection: Connection, stream_key: int, keep_bytes: int) -> int | None:
    """Find the wall clock from which on what was appended fits; None if all of it does.

    What was appended last always stays.
    """
    of_stream = chunks.c.stream_key == stream_key
    total = func.sum(chunks.c.size).over(order_by=chunks.c.append_time.desc())
    newer = (
        select(chunks.c.append_time, total.label("total")).where(of_stream).subquery("newer")
    )
    sizes = select(func.sum(chunks.c.size)).where(of_stream)
    if (connection.scalar(sizes) or 0) <= keep_bytes:
        return None
    fitting = select(func.min(newer.c.append_time)).where(newer.c.total <= keep_bytes)
    newest = select(func.max(chunks.c.append_time)).where(of_stream)
    found: int | None = connection.scalar(fitting)
    return connection.scalar(newest) if found is None else found


def forget_sequences(connection: Connection, stream_key: int, names: list[str]) -> None:
    """Delete the append sequences of forgotten writers."""
    delete_rows(connection, append_sequences, [(stream_key, name) for name in names])


def read_chunks(
    connection: Connection, stream_key: int, segment: int, *, start: int, end: int, limit: int
) -> list[Chunk]:
    """Read whole chunks that overlap ``[start, end)``, in order: ``limit`` bytes, or one."""
    holds_start = (
        select(func.max(chunks.c.first_offset))
        .where(_in_segment(stream_key, segment), chunks.c.first_offset <= start)
        .scalar_subquery()
    )
    overlaps = chunks.c.first_offset.between(holds_start, end - 1)
    sizes = _chunk_rows(connection, _in_segment(stream_key, segment) & overlaps)
    last, read = start, 0
    for row in sizes:
        if read and read + row.size > limit:
            break
        last, read = row.first_offset, read + row.size
    if not sizes:
        return []
    within = chunks.c.first_offset.between(sizes[0].first_offset, last)
    found = connection.execute(
        select(*(chunks.c[name] for name in Chunk._fields))
        .where(_in_segment(stream_key, segment), within)
        .order_by(chunks.c.first_offset)
    )
    return [Chunk(*row) for row in found]


def chunks_between(
    connection: Connection, stream_key: int, segment: int, *, start: int, end: int
) -> list[ChunkRow]:
    """List some of the chunks that start within ``[start, end)``, in order."""
    within = chunks.c.first_offset.between(start, end - 1)
    return _chunk_rows(connection, _in_segment(stream_key, segment) & within)


def _chunk_rows(connection: Connection, condition: ColumnElement[bool]) -> list[ChunkRow]:
    rows = connection.execute(
        select(*(chunks.c[name] for name in ChunkRow._fields))
        .where(condition)
        .order_by(chunks.c.first_offset)
        .limit(CHUNKS_LISTED)
    )
    return [ChunkRow(*row) for row in rows]


def _in_segment(stream_key: int, segment: int) -> ColumnElement[bool]:
    return (chunks.c.stream_key == stream_key) & (chunks.c.segment == segment)


def first_offsets_reaching(
    connection: Connection, stream_key: int, segments: Sequence[int], time: int
) -> dict[int, int]:
    """Find the first event of each segment at which the running maximum reaches a time.

    Segments in which it never does are left out. Before the chunk found the maximum is below the
    time, so within it the first event at or above the time is the one; unless that was truncated,
    and the chunk is the first that is left.
    """
    if not segments:
        return {}
    wanted = values(column("segment", Integer)).data([(one,) for one in segments]).cte("wanted")
    one = chunks.alias()
    first = (
        select(one.c.first_offset)
        .where(one.c.stream_key == stream_key, one.c.segment == wanted.c.segment)
        .where(one.c.running_time >= time)
        .order_by(one.c.running_time, one.c.first_offset)
        .limit(1)
        .scalar_subquery()
    )
    of_stream = (chunks.c.stream_key == stream_key) & (chunks.c.segment == wanted.c.segment)
    rows = connection.execute(
        select(chunks.c.segment, chunks.c.first_offset, chunks.c.data).select_from(
            wanted.join(chunks, of_stream & (chunks.c.first_offset == first))
        )
    )
    return {row.segment: row.first_offset + first_reaching(row.data, time) for row in rows}


def replace_run(
    connection: Connection,
    stream_key: int,
    segment: int,
    run: Sequence[ChunkRow],
    merged: Chunk,
) -> None:
    """Put one chunk in place of several adjacent ones.

    The race: the stream may have been deleted or truncated since the chunks were read. Then there are fewer, and
    this raises `ChunksGoneError`: its transaction must not be committed.
    """
    within = _in_segment(stream_key, segment) & chunks.c.first_offset.between(
        run[0].first_offset, run[-1].first_offset
    )
    if connection.execute(delete(chunks).where(within)).rowcount != len(run):
        raise ChunksGoneError
    write_appends(connection, stream_key, [merged], {})
