"""Appending to and reading from the embedded log, independent of HTTP."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from controller import reports
from controller.log import storage as log_storage
from controller.log.codec import END_OF_STREAM, SCHEMA_MESSAGE
from controller.log.state import AppendOutcome, SegmentEnds
from controller.sequencer import Batch
from controller.service import Service
from controller.streams import StreamState
from tidegauge.acceptance import check_incarnation
from tidegauge.errors import (
    InvalidRequestError,
    LogIsExternalError,
    SegmentSealedError,
    StreamSealedError,
    UnknownStreamError,
    UnknownStreamSegmentError,
    UnknownWriterError,
)
from tidegauge.names import key_hash
from tidegauge.topology import Position
from tidegauge.wire.events import EventsAppended
from tidegauge.wire.writers import NoteTime

_PAGE_BYTES = 4 * 1_048_576


@dataclass(frozen=True, slots=True)
class Source:
    """Who appends, and what it promises with it.

    Attributes
    ----------
    writer
        Its name; None for events that nobody answers for.
    incarnation
        From its registration.
    note_time
        A time to note with the append, ms.
    """

    writer: str | None = None
    incarnation: int | None = None
    note_time: int | None = None


def append_arrow(
    batch: Batch,
    state: StreamState,
    segment: int,
    events: pa.RecordBatch,
    *,
    writer: str,
    incarnation: int,
    sequence: int,
) -> AppendOutcome:
    """Append events to one segment exactly once.

    Raises
    ------
    UnknownWriterError
        If the writer never registered.
    WriterFencedError, SequenceGapError, SegmentSealedError, StreamSealedError
        By the rules of the log; nothing is stored then.
    """
    ends = ends_of(state)
    if writer not in state.clock:
        raise UnknownWriterError(writer)
    check_incarnation(writer, state.clock.incarnation(writer), incarnation)
    topology = state.clock.topology
    if segment not in topology:
        raise UnknownStreamSegmentError(segment)
    last = ends.last_append(writer, segment, incarnation)
    if topology[segment].sealed_length is not None and sequence > last.sequence:
        if state.clock.final:
            raise StreamSealedError(str(state.identity.name))
        successors = list(topology.successors[segment])
        raise SegmentSealedError(segment, successors, last.sequence)
    outcome = ends.append_once(
        segment, events, writer=writer, incarnation=incarnation, sequence=sequence
    )
    batch.touch(state)
    return outcome


def append_routed(
    batch: Batch, service: Service, state: StreamState, events: pa.RecordBatch, source: Source
) -> Position:
    """Route events by key, append them, and note a time, all or nothing.

    Returns
    -------
    Position
        The next offset of each segment written to.
    """
    ends = ends_of(state)
    if state.clock.final:
        raise StreamSealedError(str(state.identity.name))
    parts = _by_segment(state, events)
    position = {n: ends.tails[n] + part.num_rows for n, part in parts.items()}
    if source.writer is not None:
        _note(batch, service, state, source, ends.tails | position)
    for segment, part in parts.items():
        next_offset = ends.append(segment, part)
        if source.writer is not None and source.writer in state.clock:
            incarnation = source.incarnation or 0
            last = ends.last_append(source.writer, segment, incarnation)
            ends.remember(source.writer, segment, last._replace(next_offset=next_offset))
    batch.touch(state)
    return position


def _note(
    batch: Batch, service: Service, state: StreamState, source: Source, tails: Position
) -> None:
    """Check the writer, and take in its report as if the events were appended already.

    Everything that can be refused is refused here, before anything is appended.
    """
    assert source.writer is not None  # noqa: S101 (checked by the caller)
    if source.note_time is not None:
        report = NoteTime(
            time=source.note_time, position=tails, incarnation=source.incarnation
        )
        reports.note_time(batch, service.clocks, state, source.writer, report, tails=tails)
    elif source.writer in state.clock:
        stored = state.clock.incarnation(source.writer)
        check_incarnation(source.writer, stored, source.incarnation)


def _by_segment(state: StreamState, events: pa.RecordBatch) -> dict[int, pa.RecordBatch]:
    topology = state.clock.topology
    keys = events.column("key").to_pylist()
    routes = pa.array([topology.route(key_hash(key)) for key in keys], pa.int64())
    return {
        number: events.filter(pc.equal(routes, number))
        for number in sorted(set(routes.to_pylist()))
    }


async def append_once_by_key(
    service: Service,
    state: StreamState,
    events: pa.RecordBatch,
    source: Source,
    *,
    idempotency_key: str,
) -> EventsAppended:
    """Append routed events unless this idempotency key was answered before.

    A key is looked up on disk before the batch and in memory within it, so that of two requests
    that race one is stored and the other gets its answer.
    """
    key = state.identity.key
    stored = await service.database.read(
        partial(log_storage.stored_answer, stream_key=key, key=idempotency_key)
    )
    if stored is not None:
        return EventsAppended.model_validate_json(stored)
    ends = ends_of(state)

    def decide(batch: Batch) -> Position:
        if idempotency_key in ends.answered:
            return ends.answered[idempotency_key]
        position = append_routed(batch, service, state, events, source)
        ends.answered[idempotency_key] = position
        answer = appended_answer(state, position).model_dump_json()
        batch.write(
            partial(
                log_storage.store_answer,
                stream_key=key,
                key=idempotency_key,
                answer=answer,
                wall_ms=service.clocks.now().wall_ms,
            )
        )
        return position

    position = await service.sequencer.submit(decide)
    return appended_answer(state, position)


def appended_answer(state: StreamState, position: Position) -> EventsAppended:
    """Answer an append of routed events."""
    return EventsAppended(
        stream_id=state.identity.stream_id,
        position=dict(position),
        watermark=state.watermark,
        final=state.final,
    )


def ends_of(state: StreamState) -> SegmentEnds:
    """Find the ends of a stream's segments, or refuse what only the embedded log can do."""
    if state.deleted:
        raise UnknownStreamError(str(state.identity.name))
    if state.ends is None:
        raise LogIsExternalError(str(state.identity.name))
    return state.ends


def check_range(
    state: StreamState, segment: int, start: int, end: int | None
) -> tuple[int, int]:
    """Bound a range of offsets by what is durable.

    Raises
    ------
    InvalidRequestError
        If it starts beyond the tail, or ends before it starts.
    """
    ends_of(state)
    if segment not in state.published_topology:
        raise UnknownStreamSegmentError(segment)
    tail = (state.published_tails or {}).get(segment, 0)
    if start > tail:
        raise InvalidRequestError.of("start", f"{start} is beyond the tail, {tail}")
    if end is not None and end < start:
        raise InvalidRequestError.of("end", f"{end} is before the start, {start}")
    return start, tail if end is None else min(end, tail)


async def first_page(
    service: Service, state: StreamState, segment: int, start: int, end: int
) -> tuple[int, AsyncIterator[bytes]]:
    """Open a read of whole chunks.

    Returns
    -------
    tuple
        The offset of the first event, and the bytes of an Arrow IPC stream.
    """
    read = partial(_page, service, state, segment)
    page = await read(start, end) if start < end else []
    first = page[0].first_offset if page else start

    async def body() -> AsyncIterator[bytes]:
        yield SCHEMA_MESSAGE
        chunks, at = page, start
        while chunks:
            for chunk in chunks:
                yield chunk.data
            at = chunks[-1].first_offset + chunks[-1].events
            chunks = await read(at, end) if at < end else []
        yield END_OF_STREAM

    return first, body()


async def _page(
    service: Service, state: StreamState, segment: int, start: int, end: int
) -> list[log_storage.Chunk]:
    return await service.database.read(
        partial(
            log_storage.read_chunks,
            stream_key=state.identity.key,
            segment=segment,
            start=start,
            end=end,
            limit=_PAGE_BYTES,
        )
    )
