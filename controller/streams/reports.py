"""What writers say: reports, registrations, leaving; decided inside a batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from dataclasses import replace

from controller.clocks import Clock
from controller.commit.batch import Batch
from controller.log.state import SegmentEnds
from controller.store import streams as storage
from controller.streams.stream import StreamState, write_topology
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.intake import SignedReport, TimeReport
from tidegauge.aggregation.outcomes import Registration
from tidegauge.aggregation.writers import Now
from tidegauge.errors import InvalidPositionError, InvalidRequestError, ProblemError
from tidegauge.event_time import looks_like_seconds
from tidegauge.explain.situation import WriterStatus
from tidegauge.names import check_name
from tidegauge.topology import Position
from tidegauge.wire.writers import LeaveStream

_AS_THEY_ARE = nullcontext()


def note_time(  # noqa: PLR0913 (what a report is made of, and where it goes)
    batch: Batch,
    clocks: Clock,
    state: StreamState,
    writer: str,
    report: TimeReport,
    *,
    tails: Position | None = None,
) -> None:
    """Take in a report; see `Aggregator.note_time` for what it raises.

    ``tails`` bound the position, if events are about to be appended with the report.

    Raises
    ------
    InvalidRequestError
        If the writer's name is none.
    NameTooLongError, TooManyWritersError
        If the writer is new, and may not be.
    TooManySegmentsError
        If the writer's position names too many segments.
    """
    if writer not in state.aggregator:
        check_new(state, writer, state.aggregator)
    if report.position is not None and tails is None:
        state.limits.check_position(report.position)
    if state.ends is not None:
        state.refuse_if_deleted()
        tails = tails or state.ends.tails
        position = tails if report.position is None else report.position
        state.aggregator.note_time(
            writer,
            report.time,
            position,
            incarnation=report.incarnation,
            now=clocks.now(),
            tails=tails,
            appended=_appended_before(state.ends, state.aggregator, writer, report),
        )
    else:
        _note_external(batch, clocks, state, writer, report)
    batch.touch(state)


def note_times(
    batch: Batch, clocks: Clock, state: StreamState, reports: Sequence[SignedReport]
) -> Mapping[int, ProblemError]:
    """Take in reports about one stream, in order; see `note_time`.

    Returns
    -------
    mapping of int to ProblemError
        Why some are refused, by their places.
    """
    refused: dict[int, ProblemError] = {}
    for place in _unusual(clocks.now(), state, reports):
        report = reports[place]
        try:
            note_time(batch, clocks, state, report.writer, report)
        except ProblemError as error:
            refused[place] = error
    if len(refused) < len(reports):
        batch.touch(state)
    return refused


def register(
    batch: Batch, clocks: Clock, state: StreamState, writer: str, time: int | None
) -> Registration:
    """Start a new incarnation; see `Aggregator.register`."""
    state.refuse_if_deleted()
    if writer not in state.aggregator:
        check_new(state, writer, state.aggregator)
    appended, above = None, 0
    if state.ends is not None:
        appended = state.ends.appended_by(writer)
        above = state.ends.newest_incarnation(writer)
    registration = state.aggregator.register(
        writer, time=time, appended=appended, above=above, now=clocks.now()
    )
    batch.touch(state)
    return registration


def leave(
    batch: Batch, clocks: Clock, state: StreamState, writer: str, last: LeaveStream
) -> WriterStatus:
    """Count a writer no longer; see `Aggregator.leave`. Tells what became of it."""
    state.refuse_if_deleted()
    if last.position is not None and last.time is None:
        raise InvalidRequestError.of("time", "a last report has a time; send both or none")
    tails = None if state.ends is None else state.ends.tails
    position = last.position
    state.limits.check_position(position or ())
    if last.time is not None and position is None:
        position = tails or {}
    now = clocks.now()
    with _new_partitions(batch, state, position or {}):
        state.aggregator.leave(
            writer,
            time=last.time,
            position=position,
            incarnation=last.incarnation,
            now=now,
            tails=tails,
        )
    batch.touch(state)
    return state.aggregator.inspect(now).status(writer)


def expire(batch: Batch, clocks: Clock, state: StreamState, writer: str) -> WriterStatus:
    """Drop a writer by hand; see `Aggregator.expire`. Tells what became of it."""
    state.refuse_if_deleted()
    now = clocks.now()
    state.aggregator.expire(writer, now=now)
    batch.touch(state)
    return state.aggregator.inspect(now).status(writer)


def seconds_hint(state: StreamState, time: int | None) -> str | None:
    """Say that an accepted time looks like seconds."""
    if time is None or not looks_like_seconds(time) or state.config.max_future_skew_ms is None:
        return None
    return f"time {time} lies in early 1970: are these seconds? Times are milliseconds"


def _unusual(now: Now, state: StreamState, reports: Sequence[SignedReport]) -> Iterable[int]:
    """Take in what is usual, and give the places of all else before going on."""
    many_segments = len(state.aggregator.topology.segments) > state.limits.position_segments
    if many_segments or state.deleted:
        return range(len(reports))
    tails = None if state.ends is None else state.ends.tails
    return state.aggregator.note_times(reports, now=now, tails=tails)


def _note_external(
    batch: Batch, clocks: Clock, state: StreamState, writer: str, report: TimeReport
) -> None:
    """Take in a report about an external log, which may name partitions for the first time."""
    state.refuse_if_deleted()
    if report.position is None:
        message = (
            "send it: the log is external, so only the writer knows how far it has written"
        )
        raise InvalidRequestError.of("position", message)
    now = clocks.now()
    known = report.position.keys() <= state.aggregator.topology.segments.keys()
    with _AS_THEY_ARE if known else _new_partitions(batch, state, report.position):
        state.aggregator.note_time(
            writer, report.time, report.position, incarnation=report.incarnation, now=now
        )


@contextmanager
def _new_partitions(batch: Batch, state: StreamState, position: Position) -> Iterator[None]:
    """Add the partitions that a report names for the first time, unless it is refused.

    Those that there is no room for are not added; the report is refused for them then, or before
    that for whatever else is wrong with it.
    """
    before = state.aggregator.topology
    if state.ends is not None or position.keys() <= before.segments.keys():
        yield
        return
    added = sorted(position.keys() - before.segments.keys())
    limit = state.config.max_segments or state.config.segments
    if added[0] >= 0 and len(before.segments) + len(added) <= limit:
        state.aggregator.change_topology(before.with_roots(added))
    try:
        yield
    except Exception as error:
        known = state.aggregator.topology.segments
        state.aggregator.change_topology(before)
        if isinstance(error, InvalidPositionError) and error.segment not in known:
            raise _no_room(error, len(known), limit) from error
        raise
    _store_topology(batch, state)


def _no_room(error: InvalidPositionError, segments: int, limit: int) -> InvalidPositionError:
    if error.segment < 0:
        return replace(error, reason="partition numbers are 0 or more")
    reason = (
        f"there is no such partition, and the stream has {segments} of at most {limit}; "
        "raise max_segments if the log has grown"
    )
    return replace(error, reason=reason)


def _store_topology(batch: Batch, state: StreamState) -> None:
    values = {"topology": write_topology(state.aggregator.topology)}
    key = state.identity.key
    batch.write(lambda connection: storage.update_stream(connection, key, values))


def _appended_before(
    ends: SegmentEnds, aggregator: Aggregator, writer: str, report: TimeReport
) -> Position | None:
    """Find what a name appended before a report that begins an incarnation of it."""
    if writer in aggregator and (report.incarnation or 0) <= aggregator.incarnation(writer):
        return None
    return ends.appended_by(writer)


def check_new(state: StreamState, writer: str, known: Sized) -> None:
    """Refuse a new writer with a bad name, or next to as many known ones as there may be."""
    try:
        check_name(writer)
    except ValueError as error:
        raise InvalidRequestError.of("writer", str(error)) from error
    state.limits.check_new_writer(str(state.identity.name), writer, known)
