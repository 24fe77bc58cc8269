"""Rows of what transactions staged. Every function runs in its caller's transaction."""

from collections.abc import Iterable
from typing import NamedTuple, Self

import pyarrow as pa
from pyarrow import ipc
from sqlalchemy import Connection, delete, select

from controller.log.times import EventTimes
from controller.schema import finished_stagings, staged_chunks
from tidegauge.wire.columns import EVENT_SCHEMA

_LZ4 = ipc.IpcWriteOptions(compression="lz4")


class StagedEvents(NamedTuple):
    """Events of one append as they are staged: an IPC stream, whatever the format of chunks is."""

    rows: int
    size: int
    """In memory, bytes."""
    message: bytes
    times: EventTimes

    @classmethod
    def of(cls, events: pa.RecordBatch, lines: bytes = b"") -> Self:
        """Encode events, which were ``lines`` if they came as text."""
        with pa.BufferOutputStream() as sink:
            with ipc.new_stream(sink, EVENT_SCHEMA, options=_LZ4) as stream:
                stream.write_batch(events)
            message = sink.getvalue().to_pybytes()
        return cls(events.num_rows, events.nbytes, message, EventTimes.of(events, lines))


def read_staged(
    connection: Connection, stream_key: int, ids: Iterable[str]
) -> tuple[pa.RecordBatch, list[int]]:
    """Read what transactions staged, one behind the other; return how many chunks each has, too."""
    tables = [EVENT_SCHEMA.empty_table()]
    counts: list[int] = []
    for transaction in ids:
        of_it = staged_chunks.c.transaction_id == transaction
        rows = connection.execute(
            select(staged_chunks.c.data)
            .where(staged_chunks.c.stream_key == stream_key, of_it)
            .order_by(staged_chunks.c.ordinal)
        ).all()
        for row in rows:
            with ipc.open_stream(pa.py_buffer(row.data)) as stream:
                tables.append(stream.read_all())
        counts.append(len(rows))
    events = pa.concat_tables(tables).combine_chunks().to_batches()
    return events[0] if events else pa.RecordBatch.from_pylist([], EVENT_SCHEMA), counts


def clear_staged(connection: Connection, limit: int) -> bool:
    """Remove some of what a finished transaction staged; False if nothing is left."""
    of_one = connection.execute(select(finished_stagings).limit(1)).first()
    if of_one is None:
        return False
    of_it = (staged_chunks.c.stream_key == of_one.stream_key) & (
        staged_chunks.c.transaction_id == of_one.transaction_id
    )
    found = connection.execute(
        select(staged_chunks.c.ordinal).where(of_it).order_by("ordinal").limit(limit)
    ).all()
    if found:
        until = staged_chunks.c.ordinal <= found[-1].ordinal
        connection.execute(delete(staged_chunks).where(of_it, until))
    if len(found) < limit:
        connection.execute(
            delete(finished_stagings).where(
                finished_stagings.c.stream_key == of_one.stream_key,
                finished_stagings.c.transaction_id == of_one.transaction_id,
            )
        )
    return True


def has_finished_stagings(connection: Connection) -> bool:
    """Return whether anything is left to clear."""
    return connection.scalar(select(finished_stagings.c.stream_key).limit(1)) is not None
