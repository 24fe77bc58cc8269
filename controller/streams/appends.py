"""Appending to the embedded log, independent of HTTP; decided inside a batch."""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

from controller.commit.batch import Batch
from controller.log import storage as log_storage
from controller.log.codec import EncodedEvents
from controller.log.routing import RoutedEvents, route
from controller.log.state import AppendOutcome, KeyedAnswer, SegmentEnds
from controller.service import Service
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.aggregation.acceptance import check_incarnation
from tidegauge.errors import (
    InvalidRequestError,
    LogIsExternalError,
    SegmentSealedError,
    StreamSealedError,
    UnknownStreamSegmentError,
    UnknownWriterError,
)
from tidegauge.topology import Position
from tidegauge.wire.writers import NoteTime


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


def append_arrow(  # noqa: PLR0913 (parts of one append)
    batch: Batch,
    state: StreamState,
    segment: int,
    events: list[EncodedEvents],
    *,
    writer: str,
    incarnation: int | None,
    sequence: int,
) -> AppendOutcome:
    """Append events to one segment exactly once.

    Raises
    ------
    UnknownWriterError
        If the stream does not know the writer: its sequences could never be forgotten.
    WriterFencedError, IncarnationRequiredError
        By the rules for reports.
    SequenceGapError, SegmentSealedError, StreamSealedError
        By the rules of the log; nothing is stored then.
    """
    ends = ends_of(state)
    topology = state.aggregator.topology
    if segment not in topology:
        raise UnknownStreamSegmentError(segment)
    if writer not in state.aggregator:
        raise UnknownWriterError(writer)
    incarnation = _checked_incarnation(state, ends, writer, incarnation)
    last = ends.last_append(writer, segment, incarnation)
    if topology[segment].sealed_length is not None and sequence > last.sequence:
        if state.aggregator.final:
            raise StreamSealedError(str(state.identity.name))
        successors = list(topology.successors[segment])
        raise SegmentSealedError(segment, successors, last.sequence)
    outcome = ends.append_once(
        segment, events, writer=writer, incarnation=incarnation, sequence=sequence
    )
    batch.touch(state)
    return outcome


def _checked_incarnation(
    state: StreamState, ends: SegmentEnds, writer: str, given: int | None
) -> int:
    """Refuse zombies: an append may name a newer incarnation before any report of it does."""
    known = state.aggregator.incarnation(writer) if writer in state.aggregator else 0
    newest = max(known, ends.newest_incarnation(writer))
    check_incarnation(writer, newest, given)
    return given or 0


def append_routed(
    batch: Batch, service: Service, state: StreamState, routed: RoutedEvents, source: Source
) -> Position:
    """Append routed events, and note a time, all or nothing.

    Returns
    -------
    Position
        The next offset of each segment written to.
    """
    ends = ends_of(state)
    if state.aggregator.final:
        raise StreamSealedError(str(state.identity.name))
    if routed.topology_revision != state.aggregator.topology.revision:
        routed = route(state.aggregator.topology, routed.events)
    position = {
        number: ends.tails[number] + sum(chunk.rows for chunk in part)
        for number, part in routed.parts.items()
    }
    incarnation = _note(batch, service, state, source, ends.tails | position)
    for segment, part in routed.parts.items():
        next_offset = ends.append(segment, part)
        if source.writer is not None:
            last = ends.last_append(source.writer, segment, incarnation)
            ends.remember(source.writer, segment, last._replace(next_offset=next_offset))
    batch.touch(state)
    return position


def _note(
    batch: Batch, service: Service, state: StreamState, source: Source, tails: Position
) -> int:
    """Check the writer, and take in its report as if the events were appended already.

    Everything that can be refused is refused here, before anything is appended. Returns the
    incarnation that the events belong to.

    What a name appends before the stream knows it is remembered for its first registration or
    report, so that names that never get there are bounded like writers.
    """
    writer = source.writer
    if writer is None:
        return 0
    ends = ends_of(state)
    if writer not in state.aggregator and writer not in ends.writers:
        reports.check_new(state, writer, ends.writers)
    incarnation = _checked_incarnation(state, ends, writer, source.incarnation)
    if source.note_time is not None:
        report = NoteTime(time=source.note_time, position=tails, incarnation=source.incarnation)
        reports.note_time(batch, service.clocks, state, writer, report, tails=tails)
    return incarnation


async def append_once_by_key(  # noqa: PLR0913 (parts of one append)
    service: Service,
    state: StreamState,
    routed: RoutedEvents,
    source: Source,
    *,
    idempotency_key: str,
    body: bytes,
) -> Position:
    """Append routed events unless this idempotency key was answered before.

    The race: two requests with one key. Each looks on disk before its batch and in memory
    within it, so that one is stored and the other gets its answer; should memory have lost the
    key in between, the primary key of the table refuses the second.

    Raises
    ------
    InvalidRequestError
        If the key was used for another request.
    """
    fingerprint = _fingerprint(body, source)
    on_disk = await service.database.read(
        partial(log_storage.stored_answer, stream_key=state.identity.key, key=idempotency_key)
    )

    def decide(batch: Batch) -> Position:
        ends = ends_of(state)
        answer = on_disk or ends.answered.get(idempotency_key)
        if answer is None:
            position = append_routed(batch, service, state, routed, source)
            answer = KeyedAnswer(fingerprint, position)
            ends.remember_answer(idempotency_key, answer)
            _store(batch, service, state, idempotency_key, answer)
        elif answer.fingerprint != fingerprint:
            message = f"{idempotency_key!r} was used for another request; make a new one"
            raise InvalidRequestError.of("Idempotency-Key", message)
        return answer.position

    position: Position = await service.sequencer.submit(decide)
    return position


def _store(
    batch: Batch, service: Service, state: StreamState, key: str, answer: KeyedAnswer
) -> None:
    batch.write(
        partial(
            log_storage.store_answer,
            stream_key=state.identity.key,
            key=key,
            answer=answer,
            wall_ms=service.clocks.now().wall_ms,
        )
    )


def _fingerprint(body: bytes, source: Source) -> str:
    digest = blake2b(body, digest_size=16)
    digest.update(repr((source.writer, source.note_time)).encode())
    return digest.hexdigest()


def ends_of(state: StreamState) -> SegmentEnds:
    """Find the ends of a stream's segments, or refuse what only the embedded log can do."""
    state.refuse_if_deleted()
    if state.ends is None:
        raise LogIsExternalError(str(state.identity.name))
    return state.ends
