"""The index between time and position: where to start, where to stop, and what holds there."""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TypeVar

from sqlalchemy import Connection

from controller.database import Database
from controller.log import storage as log_storage
from controller.log.embedded import EmbeddedLog
from controller.store.holds import read_first_reaching, read_holds
from controller.store.marks import Steps, StoredMarks
from controller.streams.stream import SeenWindow, StreamState
from tidegauge.holds import Hold
from tidegauge.lattice import check_known, covers
from tidegauge.marks import Mark
from tidegauge.starts import starting_position
from tidegauge.topology import Position
from tidegauge.windows import count_passed, time_window

_T = TypeVar("_T")
_ENTRIES_PER_PAGE = 50_000
"""Of the cuts of all marks of a page: what is written in the event loop holds up all others."""
_NEWEST = 64
"""Marks kept in memory, where windows are asked for: positions of those that follow a stream are among them."""
_LAGGING = 1_024
"""Positions before those of which the windows are kept: more than there are groups that lag."""
_NOT_READ = -1
_lower = attrgetter("lower")


async def marks_after(
    database: Database, state: StreamState, revision: int, *, limit: int
) -> list[Mark]:
    """Read a page of marks after a revision, oldest first: the fewer the wider their cuts are."""
    per_mark = max(1, len(state.published.topology.segments))
    most = min(limit, max(1, _ENTRIES_PER_PAGE // per_mark))
    return await _read_marks(database, state, lambda marks: marks.after(revision, most))


async def first_mark_from(database: Database, state: StreamState, time: int) -> Mark | None:
    """Find the first mark with ``lower`` ≥ time: every event below it lies before its cut."""
    newest = await _newest_marks(database, state)
    if newest and newest[0].lower < time:
        return next(iter(newest[bisect_left(newest, time, key=_lower) :]), None)
    return await _read_marks(database, state, lambda marks: marks.first_from(time))


async def steps_of(
    database: Database, state: StreamState, since_ms: int, until_ms: int, step_ms: int
) -> Steps:
    """Read the last mark of each step of wall clock; see `StoredMarks.steps`."""
    follows_clock = state.config.max_future_skew_ms is not None
    return await _read_marks(
        database,
        state,
        lambda marks: marks.steps(since_ms, until_ms, step_ms, with_age=follows_clock),
    )


async def completed_at(
    database: Database, state: StreamState, time: int, stop: Mark
) -> tuple[int | None, bool]:
    """Find at which wall clock the watermark reached a time, ms, and whether that is exact (8b.13).

    The mark that reached it may be thinned out; the end of the span that kept it back is not.
    """
    key, revision = state.identity.key, stop.revision
    if revision == 1 or stop.lower == time:
        return stop.marked_ms, True

    def read(connection: Connection) -> tuple[int | None, bool]:
        before = StoredMarks(connection, key, up_to=revision).after(revision - 2, 1)
        if before[:1] != [stop]:
            return stop.marked_ms, True
        span = read_first_reaching(connection, key, time)
        return (stop.marked_ms, False) if span is None else (span.until_ms, True)

    return await database.read(read)


async def holds_of(
    database: Database,
    state: StreamState,
    current: Hold | None,
    *,
    since_ms: int,
    until_ms: int,
    before: int | None,
    limit: int,
) -> list[Hold]:
    """List the spans that overlap one of wall clock, the newest first; also the one that goes on.

    The race: that one ends before the others are read, and is among them.
    """
    read = partial(read_holds, stream_key=state.identity.key, since_ms=since_ms)
    found = await database.read(partial(read, until_ms=until_ms, before=before, limit=limit))
    if current is None or before is not None or (found and found[0].number >= current.number):
        return found
    overlaps = current.until_ms > since_ms and current.since_ms < until_ms
    return [current, *found][:limit] if overlaps else found


async def start_of(
    database: Database, state: StreamState, time: int
) -> tuple[Position | None, bool]:
    """Find where to start so that no event at or above a time is missed; None: from the start.

    Return whether it is exact, too. On the embedded log it is: per segment the first event at which
    the running maximum of event time reaches the time.
    """
    log, tails, topology = state.log, state.published.tails, state.published.topology
    if tails is None or not isinstance(log, EmbeddedLog):
        mark = await _read_marks(
            database, state, lambda marks: marks.newest_with_upper_below(time)
        )
        return (None if mark is None else mark.cut), False
    key, begins = state.identity.key, log.first
    reaching = [
        number
        for number, greatest in log.running_times.items()
        if greatest is not None
        and greatest >= time
        and begins.get(number, 0) < tails.get(number, 0)
    ]

    def read(connection: Connection) -> Position:
        """Read those that reach the time, and those that reading begins at: not what follows."""
        offsets = {**tails, **dict.fromkeys(reaching, _NOT_READ)}
        while True:
            begin = starting_position(topology, offsets)
            wanted = [number for number, at in begin.items() if at == _NOT_READ]
            if not wanted:
                return begin
            reached = log_storage.first_offsets_reaching(connection, key, wanted, time)
            first = {
                number: max(
                    begins.get(number, 0),
                    min(reached.get(number, tails[number]), tails[number]),
                )
                for number in wanted
            }
            if all(
                offset != topology[number].sealed_length for number, offset in first.items()
            ):
                return {**begin, **first}
            offsets |= first

    return await database.read(read), True


async def at_position(database: Database, state: StreamState, position: Position) -> SeenWindow:
    """Find the time window at a position, and the marks on both sides of it."""
    topology, seen = state.published.topology, state.windows
    check_known(topology, position)

    def find(marks: Sequence[Mark]) -> SeenWindow:
        passed = count_passed(topology, marks, position)
        return SeenWindow(
            time_window(topology, marks, position),
            marks[passed - 1] if passed else None,
            marks[passed] if passed < len(marks) else None,
            revision,
        )

    key, revision = frozenset(position.items()), state.revision
    newest = await _newest_marks(database, state)
    if newest and covers(topology, position, newest[0].cut):
        return find(newest)
    known = seen.lagging.get(key)
    if known is None or not (known.window.upper is not None or known.revision == revision):
        if len(seen.lagging) >= _LAGGING:
            seen.lagging.clear()
        known = seen.lagging[key] = await _read_marks(database, state, find)
    return known


async def _newest_marks(database: Database, state: StreamState) -> Sequence[Mark]:
    """Return the newest marks, read from disk only if several were made since the last call.

    What is kept may be thinned out on disk since; it is as true as before.
    """
    newest, known = state.published.mark, state.windows.newest
    if newest is None or (known and known[-1].revision == newest.revision):
        return known
    news = newest.revision - (known[-1].revision if known else 0)
    marks: Sequence[Mark] = [newest]
    if news > 1:
        count = min(news, _NEWEST)
        marks = await _read_marks(database, state, lambda stored: stored.last(count))
    if known and news <= _NEWEST:  # older ones are among them if some were thinned out
        marks = [*known, *(mark for mark in marks if mark.revision > known[-1].revision)]
    kept = state.windows
    if not kept.newest or kept.newest[-1].revision < newest.revision:
        kept.newest = marks[-_NEWEST:]
    return marks


async def _read_marks(
    database: Database, state: StreamState, read: Callable[[StoredMarks], _T]
) -> _T:
    """Read marks of a stream.

    The race: newer ones are made meanwhile, whose cuts may name partitions that the caller's
    topology lacks. They count as not there yet.
    """
    key, revision = state.identity.key, state.revision
    return await database.read(
        lambda connection: read(StoredMarks(connection, key, up_to=revision))
    )
