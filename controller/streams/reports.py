"""What writers say: reports, registrations, leaving; decided inside a batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from controller.commit.batch import Batch
from controller.streams import lifecycle
from controller.streams.stream import StreamState
from tidegauge.aggregation.intake import SignedReport, TimeReport
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.writers import Now
from tidegauge.errors import InvalidPositionError, InvalidRequestError, ProblemError
from tidegauge.event_time import looks_like_seconds
from tidegauge.explain.situation import WriterStatus
from tidegauge.names import check_name
from tidegauge.topology import Position
from tidegauge.wire.writers import LeaveStream, NoteTime, RegisterWriter

_AS_THEY_ARE = nullcontext()


def note_time(
    batch: Batch,
    state: StreamState,
    writer: str,
    report: TimeReport,
    *,
    now: Now,
    tails: Position | None = None,
) -> None:
    """Apply a report; see `Aggregator.note_time` for what it raises.

    ``tails`` bound the position, if events are about to be appended with the report.
    """
    aggregator = state.aggregator
    if writer not in aggregator:
        check_new(state, writer, aggregator)
    if report.position is not None and tails is None:
        state.limits.check_position(report.position)
    state.refuse_if_deleted()
    tails = tails or state.log.tails
    position = state.log.position_of(report.position, tails, aggregator.topology.unsealed)
    known_incarnation = aggregator.incarnation(writer) if writer in aggregator else -1
    # Nearly all reports name known segments: those do not pay for a context manager.
    known = position.keys() <= aggregator.topology.segments.keys()
    with _AS_THEY_ARE if known else _new_partitions(batch, state, position):
        aggregator.note_time(
            writer,
            report.time,
            position,
            incarnation=report.incarnation,
            now=now,
            tails=tails,
            # What a name appended before a report that begins an incarnation of it.
            appended=(
                state.log.appended_by(writer)
                if (report.incarnation or 0) > known_incarnation
                else None
            ),
        )
    batch.touch(state)


def note_times(
    batch: Batch, state: StreamState, reports: Sequence[SignedReport]
) -> Mapping[int, ProblemError]:
    """Apply reports as of one moment, in order, and return why some are refused, by their index."""
    now, aggregator = state.now(), state.aggregator
    refused: dict[int, ProblemError] = {}
    unusual: Iterable[int] = range(len(reports))
    has_many_segments = len(aggregator.topology.unsealed) > state.limits.position_segments
    if not (has_many_segments or state.deleted):
        # It takes in what is usual, and gives the indices of all else before going on.
        unusual = aggregator.note_times(reports, now=now, tails=state.log.tails)
    for index in unusual:
        report = reports[index]
        try:
            note_time(batch, state, report.writer, report, now=now)
        except ProblemError as error:
            refused[index] = error
    if len(refused) < len(reports):
        batch.touch(state)
    return refused


def register(
    batch: Batch, state: StreamState, writer: str, first: RegisterWriter
) -> Registration:
    """Start a new incarnation, unless the registration is known; see `Aggregator.register`."""
    state.refuse_if_deleted()
    if writer not in state.aggregator:
        check_new(state, writer, state.aggregator)
    registration = state.aggregator.register(
        writer,
        time=first.time,
        registration_id=first.registration_id,
        appended=state.log.appended_by(writer),
        above=state.log.newest_incarnation(writer),
        now=state.now(),
    )
    if not registration.is_repeated:
        state.log.abort_transactions(
            writer, wall_ms=state.now().wall_ms
        )  # of lower incarnations
    batch.touch(state)
    return registration


def leave(
    batch: Batch, state: StreamState, writer: str, last: LeaveStream
) -> tuple[WriterStatus, list[str]]:
    """Record that a writer leaves; see `Aggregator.leave`.

    Return what became of it and, if its source has ended, the writers that have not ended: the
    stream is sealed once there are none.
    """
    state.refuse_if_deleted()
    now, position = state.now(), last.position
    if last.time is None:
        if position is not None:
            raise InvalidRequestError.of("time", "a last report has a time; send both or none")
    # The race: the answer of a leave that sealed the stream is lost, and the call is repeated.
    elif not (last.ended and state.aggregator.final and state.aggregator.has_ended(writer)):
        state.aggregator.incarnation(writer)  # an unknown writer is refused: it cannot leave
        if position is None and state.log.tails is None:
            position = {}
        report = NoteTime(time=last.time, position=position, incarnation=last.incarnation)
        note_time(batch, state, writer, report, now=now)
    state.aggregator.leave(writer, incarnation=last.incarnation, now=now, ended=last.ended)
    state.log.abort_transactions(writer, wall_ms=now.wall_ms)
    batch.touch(state)
    left = state.aggregator.inspect(now).status(writer)  # sealing may forget it
    return left, lifecycle.seal_ended(batch, state) if last.ended else []


def expire(batch: Batch, state: StreamState, writer: str) -> WriterStatus:
    """Drop a writer by hand; see `Aggregator.expire`. Return what became of it."""
    state.refuse_if_deleted()
    now = state.now()
    state.aggregator.expire(writer, now=now)
    batch.touch(state)
    return state.aggregator.inspect(now).status(writer)


def seconds_hint(state: StreamState, time: int | None) -> str | None:
    """Return a hint that an accepted time looks like seconds."""
    if time is None or not looks_like_seconds(time) or state.config.max_future_skew_ms is None:
        return None
    return f"time {time} lies in early 1970: are these seconds? Times are milliseconds"


@contextmanager
def _new_partitions(batch: Batch, state: StreamState, position: Position) -> Iterator[None]:
    """Add the partitions that a report names for the first time, unless it is refused.

    Those that exceed the limit are not added; the report is refused for them then, or before
    that for whatever else is wrong with it.
    """
    before = state.aggregator.topology
    is_embedded = state.log.tails is not None  # it gets segments by scaling alone
    if is_embedded or position.keys() <= before.segments.keys():
        yield
        return
    added = sorted(position.keys() - before.segments.keys())
    limit = state.config.max_segments or state.config.segments
    if added[0] >= 0 and len(before.segments) + len(added) <= limit:
        state.aggregator.change_topology(before.with_roots(added, now_ms=state.now().wall_ms))
    try:
        yield
    except Exception as error:
        known = state.aggregator.topology.segments
        state.aggregator.change_topology(before)
        if not isinstance(error, InvalidPositionError) or error.segment in known:
            raise
        reason = "partition numbers are 0 or more"
        if error.segment >= 0:
            reason = (
                f"there is no such partition, and the stream has {len(known)} of at most "
                f"{limit}; raise max_segments if the log has grown"
            )
        raise replace(error, reason=reason) from error
    topology = state.descriptions.of(state.aggregator.topology)
    state.store(batch, topology=topology.model_dump_json())


def check_new(state: StreamState, writer: str, known: Sized) -> None:
    """Refuse a new writer with a bad name, or next to as many known ones as there may be."""
    try:
        check_name(writer)
    except ValueError as error:
        raise InvalidRequestError.of("writer", str(error)) from error
    state.limits.check_new_writer(str(state.identity.name), writer, known)
