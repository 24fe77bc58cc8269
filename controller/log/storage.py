"""Rows of chunks and append sequences. Every function runs in its caller's transaction."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.sqlite import insert as upsert

from controller.log.codec import concatenate, decode, encode
from controller.log.schema import append_sequences, chunks, idempotency_keys
from controller.log.state import Chunk, LastAppend, SegmentEnds
from controller.storage import insert_rows
from tidegauge.topology import Topology

COMPACT_EVENTS = 65_536
COMPACT_BYTES = 1_048_576
_SCANNED = 2_000


class ChunkRow(NamedTuple):
    """A stored chunk without its data."""

    first_offset: int
    events: int
    running_time: int | None
    size: int


def read_ends(connection: Connection, stream_key: int, topology: Topology) -> SegmentEnds:
    """Read the ends of a stream's segments."""
    newest = (
        select(chunks.c.segment, func.max(chunks.c.first_offset).label("first_offset"))
        .where(chunks.c.stream_key == stream_key)
        .group_by(chunks.c.segment)
        .subquery()
    )
    rows = connection.execute(
        select(chunks.c.segment, chunks.c.first_offset, chunks.c.events, chunks.c.running_time)
        .join(
            newest,
            (chunks.c.segment == newest.c.segment)
            & (chunks.c.first_offset == newest.c.first_offset),
        )
        .where(chunks.c.stream_key == stream_key)
    ).all()
    sequences = connection.execute(
        select(append_sequences).where(append_sequences.c.stream_key == stream_key)
    )
    return SegmentEnds(
        tails=dict.fromkeys(sorted(topology.segments), 0)
        | {row.segment: row.first_offset + row.events for row in rows},
        running_times={row.segment: row.running_time for row in rows},
        last_appends={
            (row.writer, row.segment): LastAppend(
                row.incarnation, row.sequence, row.next_offset
            )
            for row in sequences
        },
    )


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
        [
            (stream_key, *one[:4], len(one.data), one.data)
            for one in appended
        ],
    )
    if sequences:
        statement = upsert(append_sequences)
        connection.execute(
            statement.on_conflict_do_update(
                index_elements=["stream_key", "writer", "segment"],
                set_={
                    name: statement.excluded[name]
                    for name in ("incarnation", "sequence", "next_offset")
                },
            ),
            [
                {"stream_key": stream_key, "writer": writer, "segment": segment}
                | last._asdict()
                for (writer, segment), last in sequences.items()
            ],
        )


def forget_sequences(connection: Connection, stream_key: int, names: list[str]) -> None:
    """Delete the append sequences of forgotten writers."""
    connection.execute(
        delete(append_sequences).where(
            append_sequences.c.stream_key == stream_key, append_sequences.c.writer.in_(names)
        )
    )


def read_chunks(
    connection: Connection, stream_key: int, segment: int, *, start: int, end: int, limit: int
) -> list[Chunk]:
    """Read whole chunks that overlap ``[start, end)``, in order, at most ``limit`` bytes or one."""
    rows = connection.execute(
        select(
            chunks.c.segment,
            chunks.c.first_offset,
            chunks.c.events,
            chunks.c.running_time,
            chunks.c.size,
        )
        .where(
            chunks.c.stream_key == stream_key,
            chunks.c.segment == segment,
            chunks.c.first_offset >= _chunk_start(stream_key, segment, start),
            chunks.c.first_offset < end,
        )
        .order_by(chunks.c.first_offset)
        .limit(1_000)
    ).all()
    last, size = start, 0
    for row in rows:
        if size and size + row.size > limit:
            break
        last, size = row.first_offset, size + row.size
    if not rows:
        return []
    found = connection.execute(
        select(
            chunks.c.segment,
            chunks.c.first_offset,
            chunks.c.events,
            chunks.c.running_time,
            chunks.c.data,
        )
        .where(
            chunks.c.stream_key == stream_key,
            chunks.c.segment == segment,
            chunks.c.first_offset >= rows[0].first_offset,
            chunks.c.first_offset <= last,
        )
        .order_by(chunks.c.first_offset)
    )
    return [Chunk(*row) for row in found]


def _chunk_start(stream_key: int, segment: int, offset: int):  # type: ignore[no-untyped-def]  # noqa: ANN202
    """The first offset of the chunk that holds an offset, as a scalar query."""
    return (
        select(func.coalesce(func.max(chunks.c.first_offset), 0))
        .where(
            chunks.c.stream_key == stream_key,
            chunks.c.segment == segment,
            chunks.c.first_offset <= offset,
        )
        .scalar_subquery()
    )


def first_offset_reaching(
    connection: Connection, stream_key: int, segment: int, time: int
) -> int | None:
    """Find the first event at which the running maximum of event time reaches a time.

    Returns None where it never does.
    """
    row = connection.execute(
        select(chunks.c.first_offset, chunks.c.data)
        .where(
            chunks.c.stream_key == stream_key,
            chunks.c.segment == segment,
            chunks.c.running_time >= time,
        )
        .order_by(chunks.c.first_offset)
        .limit(1)
    ).first()
    if row is None:
        return None
    times = decode(row.data).column("event_time").to_pylist()
    within = next(
        at for at, event_time in enumerate(times) if event_time is not None and event_time >= time
    )
    offset: int = row.first_offset + within
    return offset


def compact(
    connection: Connection, stream_key: int, segment: int, *, start: int, before: int
) -> int | None:
    """Merge one run of small chunks at or after an offset into one.

    Returns
    -------
    int or None
        Where to go on; None when nothing is left to merge below ``before``.
    """
    rows = connection.execute(
        select(chunks.c.first_offset, chunks.c.events, chunks.c.running_time, chunks.c.size)
        .where(
            chunks.c.stream_key == stream_key,
            chunks.c.segment == segment,
            chunks.c.first_offset >= start,
            chunks.c.first_offset < before,
        )
        .order_by(chunks.c.first_offset)
        .limit(_SCANNED)
    ).all()
    run: list[ChunkRow] = []
    for row in map(ChunkRow._make, rows):
        if run and _is_full([*run, row]):
            if len(run) > 1:
                break
            run = []
        run.append(row)
    if len(run) < 2:  # noqa: PLR2004 (one chunk is merged already)
        return run[0].first_offset if len(rows) == _SCANNED else None
    _merge(connection, stream_key, segment, run)
    return run[-1].first_offset + run[-1].events


def _is_full(run: list[ChunkRow]) -> bool:
    return (
        sum(one.size for one in run) > COMPACT_BYTES
        or sum(one.events for one in run) > COMPACT_EVENTS
    )


def _merge(
    connection: Connection, stream_key: int, segment: int, run: list[ChunkRow]
) -> None:
    here = (chunks.c.stream_key == stream_key) & (chunks.c.segment == segment)
    within = chunks.c.first_offset.between(run[0].first_offset, run[-1].first_offset)
    stored = connection.execute(
        select(chunks.c.data).where(here, within).order_by(chunks.c.first_offset)
    ).scalars()
    merged = concatenate(decode(data) for data in stored)
    connection.execute(delete(chunks).where(here, within))
    data = encode(merged)
    insert_rows(
        connection,
        chunks,
        [
            (
                stream_key,
                segment,
                run[0].first_offset,
                merged.num_rows,
                run[-1].running_time,
                len(data),
                data,
            )
        ],
    )


def stored_answer(connection: Connection, stream_key: int, key: str) -> str | None:
    """Look up what was answered to an idempotency key."""
    answer: str | None = connection.execute(
        select(idempotency_keys.c.answer).where(
            idempotency_keys.c.stream_key == stream_key,
            idempotency_keys.c.idempotency_key == key,
        )
    ).scalar()
    return answer


def store_answer(
    connection: Connection, stream_key: int, key: str, *, answer: str, wall_ms: int
) -> None:
    """Remember what was answered to an idempotency key."""
    insert_rows(connection, idempotency_keys, [(stream_key, key, answer, wall_ms)])


def delete_answers(connection: Connection, *, before_ms: int) -> None:
    """Delete the answers to old idempotency keys."""
    connection.execute(
        delete(idempotency_keys).where(idempotency_keys.c.created_ms < before_ms)
    )
