"""Appending to the embedded log; decided inside a batch."""

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b

import pyarrow as pa

from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.database.statements import insert_rows
from controller.log.codec import EncodedEvents
from controller.log.embedded import EmbeddedLog
from controller.log.outcomes import KeyedAnswer, outcome_row, read_outcome
from controller.log.routing import RoutedEvents, route
from controller.log.storage import AppendOutcome
from controller.log.times import EventTimes
from controller.schema import outcomes
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.aggregation.acceptance import check_incarnation
from tidegauge.errors import (
    InvalidRequestError,
    SegmentSealedError,
    StreamSealedError,
    UnavailableError,
    UnknownStreamSegmentError,
    UnknownWriterError,
)
from tidegauge.explain.hints import doubt_of
from tidegauge.explain.situation import OddEvent
from tidegauge.scaling import continuation
from tidegauge.topology import Position
from tidegauge.wire.streams import SegmentInfo
from tidegauge.wire.writers import NoteTime


@dataclass(frozen=True, slots=True)
class Source:
    """The writer that appends, and what it promises with it."""

    writer: str | None = None
    incarnation: int | None = None
    note_time: int | None = None
    of_its_own: bool = False
    """Whether the promise counts from what the writer appended, not from all that anybody did."""


def append_arrow(
    batch: Batch,
    state: StreamState,
    segment: int,
    events: list[EncodedEvents],
    *,
    times: EventTimes,
    writer: str,
    incarnation: int | None,
    sequence: int,
) -> AppendOutcome | SegmentSealedError:
    """Append events to one segment exactly once, by the rules for reports and of the log.

    The race: a change of the same batch seals the segment, and is not stored in the end. A client
    that learned what continues it would route by numbers that other segments may get. So this
    refusal is a result: it is given to the client once it is durable.
    """
    log = state.embedded_log()
    topology = state.aggregator.topology
    if segment not in topology:
        raise UnknownStreamSegmentError(segment)
    if writer not in state.aggregator:  # its sequences could never be forgotten
        raise UnknownWriterError(writer)
    incarnation = checked_incarnation(state, log, writer, incarnation)
    last = log.last_append(writer, segment, incarnation)
    if topology[segment].sealed_length is not None and sequence > last.sequence:
        if state.aggregator.final:
            raise StreamSealedError(str(state.identity.name))
        after = [
            SegmentInfo.of(successor).model_dump()
            for successor in continuation(topology, segment)
        ]
        successors = list(topology.successors[segment])
        return SegmentSealedError(segment, successors, last.sequence, topology.revision, after)
    if sequence > last.sequence:
        times.check()
    outcome = log.append_once(
        segment, events, writer=writer, incarnation=incarnation, sequence=sequence
    )
    batch.touch(state)
    return outcome


def checked_incarnation(
    state: StreamState, log: EmbeddedLog, writer: str, incarnation: int | None
) -> int:
    """Refuse zombies: an append may name a newer incarnation before any report of it does."""
    aggregator = state.aggregator
    known = aggregator.incarnation(writer) if writer in aggregator else 0
    check_incarnation(writer, max(known, log.newest_incarnation(writer)), incarnation)
    return incarnation or 0


def route_now(
    state: StreamState,
    events: pa.RecordBatch,
    *,
    writer: str | None,
    append_time: int,
    lines: bytes = b"",
) -> RoutedEvents:
    """Route events, which were ``lines`` if they came as text; any thread may do it.

    Those of a stream that has ended go nowhere: the batch refuses them, or repeats an answer.
    """
    topology, times = state.published.topology, EventTimes.of(events, lines)
    if state.final:
        return RoutedEvents(events, writer, append_time, times, topology.revision, {})
    return route(topology, events, writer=writer, append_time=append_time, times=times)


def append_routed(
    batch: Batch, state: StreamState, routed: RoutedEvents, source: Source
) -> Position:
    """Append routed events, and note a time, all or nothing.

    Returns the next offset of each segment written to.
    """
    log, writer, incarnation = state.embedded_log(), source.writer, 0
    if state.aggregator.final:
        raise StreamSealedError(str(state.identity.name))
    routed.times.check()
    if routed.topology_revision != state.aggregator.topology.revision:
        routed = route(
            state.aggregator.topology,
            routed.events,
            writer=routed.writer,
            append_time=routed.append_time,
            times=routed.times,
        )
    position = {
        number: log.tails[number] + sum(chunk.rows for chunk in part)
        for number, part in routed.parts.items()
    }
    # Everything that can be refused is refused here, before anything is appended: the report is
    # taken in as if the events were appended already.
    if writer is not None:
        # What a name appends before the stream knows it is remembered for its first registration
        # or report, so that names that never get there are bounded like writers.
        if writer not in state.aggregator and writer not in log.writers:
            reports.check_new(state, writer, log.writers)
        incarnation = checked_incarnation(state, log, writer, source.incarnation)
        if source.note_time is not None:
            tails = log.tails | position
            report = NoteTime(
                time=source.note_time,
                position=_own(state, writer, position) if source.of_its_own else None,
                incarnation=source.incarnation,
            )
            reports.note_time(batch, state, writer, report, now=state.now(), tails=tails)
        state.aggregator.go_on(writer)
    for segment, part in routed.parts.items():
        next_offset = log.append(segment, part)
        if writer is not None:
            last = log.last_append(writer, segment, incarnation)
            log.remember(writer, segment, last._replace(next_offset=next_offset))
    batch.touch(state)
    return position


def hint_of(state: StreamState, times: EventTimes, writer: str | None) -> str | None:
    """Return what looks wrong with accepted events, and keep it for the explanation."""
    now, skew_ms = state.now(), state.config.max_future_skew_ms
    for time in (times.least, times.greatest):
        if time is not None and (hint := doubt_of(time, now.wall_ms, skew_ms)) is not None:
            state.odd_event = OddEvent(time, writer, now.wall_ms)
            return hint
    return None


def _own(state: StreamState, writer: str, position: Position) -> Position:
    """Join where events are about to end with all that a writer appended before.

    What it has reported already, of tails that are not its own say, is left out: it would go back.
    """
    aggregator = state.aggregator
    reported = aggregator.reported(writer) if writer in aggregator else {}
    joined = {**state.embedded_log().appended_by(writer), **position}
    return {
        number: offset for number, offset in joined.items() if offset >= reported.get(number, 0)
    }


async def append_once_by_key(
    sequencer: Sequencer,
    database: Database,
    state: StreamState,
    routed: RoutedEvents,
    source: Source,
    *,
    idempotency_key: str,
    body: bytes,
) -> Position:
    """Append routed events unless this idempotency key was answered before.

    The race: two requests with one key. Each reads the disk before its batch and memory
    within it, so that one is stored and the other gets its answer. Memory that was read back in
    between has lost the key, which the disk may have by now: then the call is to be repeated.
    """
    digest = blake2b(body, digest_size=16)
    digest.update(repr((source.writer, source.note_time)).encode())
    fingerprint, stream_key = digest.hexdigest(), state.identity.key
    log_then = state.embedded_log()
    on_disk = await database.read(
        partial(read_outcome, stream_key=stream_key, of=KeyedAnswer, name=idempotency_key)
    )

    def decide(batch: Batch) -> Position:
        log = state.embedded_log()
        answer = on_disk or log.answered.get(idempotency_key)
        if answer is None:
            if log is not log_then:
                msg = "what the database holds was read again meanwhile"
                raise UnavailableError(msg)
            position = append_routed(batch, state, routed, source)
            answer = KeyedAnswer(fingerprint, position, state.now().wall_ms)
            log.remember_answer(idempotency_key, answer)
            rows = [outcome_row(stream_key, idempotency_key, answer)]
            batch.write(partial(insert_rows, table=outcomes, rows=rows))
        elif answer.fingerprint != fingerprint:
            message = f"{idempotency_key!r} was used for another request; make a new one"
            raise InvalidRequestError.of("Idempotency-Key", message)
        return answer.position

    return await sequencer.submit(decide)
