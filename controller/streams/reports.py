"""What writers say: reports, registrations, leaving; decided inside a batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial

from controller.commit.batch import Batch
from controller.store import streams as storage
from controller.streams.stream import StreamState
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
    state: StreamState,
    writer: str,
    report: TimeReport,
    *,
    now: Now,
    tails: Position | None = None,
) -> None:
    """Take in a report; see `Aggregator.note_time` for what it raises.

    ``tails`` bound the position, if events are about to be appended with the report.

    Raises
    ------
    InvalidRequestError
        If the writer's name is none, or the report needs a position and has none.
    NameTooLongError, TooManyWritersError
        If the writer is new, and may not be.
    TooManySegmentsError
        If the writer's position names too many segments.
    """
    aggregator = state.aggregator
    if writer not in aggregator:
        check_new(state, writer, aggregator)
    if report.position is not None and tails is None:
        state.limits.check_position(report.position)
    state.refuse_if_deleted()
    tails = tails or state.log.tails
    position = state.log.position_of(report.position, tails)
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
            appended=_appended_before(state, writer, report),
        )
    batch.touch(state)


def note_times(
    batch: Batch, state: StreamState, reports: Sequence[SignedReport]
) -> Mapping[int, ProblemError]:
    """Take in reports about one stream, in order, as of one moment; see `note_time`.

    Returns
    -------
    mapping of int to ProblemError
        Why some are refused, by their index.
    """
    now = state.now()
    refused: dict[int, ProblemError] = {}
    for index in _unusual(state, reports, now):
        report = reports[index]
        try:
            note_time(batch, state, report.writer, report, now=now)
        except ProblemError as error:
            refused[index] = error
    if len(refused) < len(reports):
        batch.touch(state)
    return refused


def _unusual(state: StreamState, reports: Sequence[SignedReport], now: Now) -> Iterable[int]:
    """Take in what is usual, and give the indices of all else before going on."""
    many_segments = len(state.aggregator.topology.segments) > state.limits.position_segments
    if many_segments or state.deleted:
        return range(len(reports))
    return state.aggregator.note_times(reports, now=now, tails=state.log.tails)


def register(batch: Batch, state: StreamState, writer: str, time: int | None) -> Registration:
    """Start a new incarnation; see `Aggregator.register`."""
    state.refuse_if_deleted()
    if writer not in state.aggregator:
        check_new(state, writer, state.aggregator)
    registration = state.aggregator.register(
        writer,
        time=time,
        appended=state.log.appended_by(writer),
        above=state.log.newest_incarnation(writer),
        now=state.now(),
    )
    batch.touch(state)
    return registration


def leave(batch: Batch, state: StreamState, writer: str, last: LeaveStream) -> WriterStatus:
    """Count a writer no longer; see `Aggregator.leave`. Tells what became of it."""
    state.refuse_if_deleted()
    if last.position is not None and last.time is None:
        raise InvalidRequestError.of("time", "a last report has a time; send both or none")
    tails, position = state.log.tails, last.position
    state.limits.check_position(position or ())
    if last.time is not None and position is None:
        position = tails or {}
    now = state.now()
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


def expire(batch: Batch, state: StreamState, writer: str) -> WriterStatus:
    """Drop a writer by hand; see `Aggregator.expire`. Tells what became of it."""
    state.refuse_if_deleted()
    now = state.now()
    state.aggregator.expire(writer, now=now)
    batch.touch(state)
    return state.aggregator.inspect(now).status(writer)


def seconds_hint(state: StreamState, time: int | None) -> str | None:
    """Say that an accepted time looks like seconds."""
    if time is None or not looks_like_seconds(time) or state.config.max_future_skew_ms is None:
        return None
    return f"time {time} lies in early 1970: are these seconds? Times are milliseconds"


@contextmanager
def _new_partitions(batch: Batch, state: StreamState, position: Position) -> Iterator[None]:
    """Add the partitions that a report names for the first time, unless it is refused.

    Those that there is no room for are not added; the report is refused for them then, or before
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
        state.aggregator.change_topology(before.with_roots(added))
    try:
        yield
    except Exception as error:
        known = state.aggregator.topology.segments
        state.aggregator.change_topology(before)
        if isinstance(error, InvalidPositionError) and error.segment not in known:
            raise _no_room(error, len(known), limit) from error
        raise
    values = {"topology": storage.dump_topology(state.aggregator.topology)}
    batch.write(partial(storage.update_stream, stream_key=state.identity.key, values=values))


def _no_room(error: InvalidPositionError, segments: int, limit: int) -> InvalidPositionError:
    if error.segment < 0:
        return replace(error, reason="partition numbers are 0 or more")
    reason = (
        f"there is no such partition, and the stream has {segments} of at most {limit}; "
        "raise max_segments if the log has grown"
    )
    return replace(error, reason=reason)


def _appended_before(state: StreamState, writer: str, report: TimeReport) -> Position | None:
    """Find what a name appended before a report that begins an incarnation of it."""
    aggregator = state.aggregator
    if writer in aggregator and (report.incarnation or 0) <= aggregator.incarnation(writer):
        return None
    return state.log.appended_by(writer)


def check_new(state: StreamState, writer: str, known: Sized) -> None:
    """Refuse a new writer with a bad name, or next to as many known ones as there may be."""
    try:
        check_name(writer)
    except ValueError as error:
        raise InvalidRequestError.of("writer", str(error)) from error
    state.limits.check_new_writer(str(state.identity.name), writer, known)
