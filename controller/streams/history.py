"""The index between time and position: where to start, where to stop, and what holds there."""

from collections.abc import Callable
from typing import TypeVar

from sqlalchemy import Connection

from controller.database import Database
from controller.log import storage as log_storage
from controller.store.marks import StoredMarks
from controller.streams.stream import StreamState
from tidegauge.lattice import down_set
from tidegauge.marks import Mark
from tidegauge.starts import starting_position
from tidegauge.topology import Position
from tidegauge.windows import TimeWindow, count_passed, time_window

_T = TypeVar("_T")
_ENTRIES_PER_PAGE = 50_000
"""Of the cuts of all marks of a page: what is written in the event loop holds up all others."""


async def marks_after(
    database: Database, state: StreamState, revision: int, *, limit: int
) -> list[Mark]:
    """Read a page of marks after a revision, oldest first: the fewer the wider their cuts are."""
    per_mark = max(1, len(state.published_topology.segments))
    most = min(limit, max(1, _ENTRIES_PER_PAGE // per_mark))
    return await _look(database, state, lambda marks: marks.after(revision, most))


async def first_mark_from(database: Database, state: StreamState, time: int) -> Mark | None:
    """Find the first mark with ``lower`` ≥ time: every event below it lies before its cut."""
    return await _look(database, state, lambda marks: marks.first_from(time))


async def start_of(
    database: Database, state: StreamState, time: int
) -> tuple[Position | None, bool]:
    """Find where to start so that no event at or above a time is missed; None: from the start.

    Tells whether it is exact. On the embedded log it is: per segment the first event at which
    the running maximum of event time reaches the time.
    """
    if state.published_tails is None:
        mark = await _look(database, state, lambda marks: marks.newest_with_upper_below(time))
        return (None if mark is None else mark.cut), False
    tails, topology = dict(state.published_tails), state.published_topology
    key, begins = state.identity.key, state.embedded_log().first

    def read(connection: Connection) -> Position:
        first = {
            segment: log_storage.first_offset_reaching(connection, key, segment, time)
            for segment in tails
        }
        offsets = {
            segment: tail
            if (at := first[segment]) is None
            else max(begins.get(segment, 0), min(at, tail))
            for segment, tail in tails.items()
        }
        return starting_position(topology, offsets)

    return await database.read(read), True


async def at_position(
    database: Database, state: StreamState, position: Position
) -> tuple[TimeWindow, Mark | None]:
    """Find the time window at a position, and the newest mark that it covers."""
    topology = state.published_topology
    down_set(topology, position)

    def find(marks: StoredMarks) -> tuple[TimeWindow, Mark | None]:
        passed = count_passed(topology, marks, position)
        window = time_window(topology, marks, position)
        return window, marks[passed - 1] if passed else None

    return await _look(database, state, find)


async def _look(
    database: Database, state: StreamState, look: Callable[[StoredMarks], _T]
) -> _T:
    """Look at the marks of a stream.

    The race: newer ones are made meanwhile, whose cuts may name partitions that the caller's
    topology lacks. They count as not there yet.
    """
    key, revision = state.identity.key, state.revision
    return await database.read(
        lambda connection: look(StoredMarks(connection, key, up_to=revision))
    )
