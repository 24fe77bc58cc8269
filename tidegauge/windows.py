"""Time windows: where in event time a position is, from marks alone."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from tidegauge.lattice import covers, precedes
from tidegauge.marks import Mark
from tidegauge.topology import Position, Topology


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """Event time between which a joint position lies, in ms.

    Attributes
    ----------
    lower
        Every event with a time below it has been read; None before the first mark.
    upper
        How far the writers had noted time at the next mark; None at the tail.
    """

    lower: int | None
    upper: int | None


def time_window(topology: Topology, marks: Sequence[Mark], position: Position) -> TimeWindow:
    """Compare a position with the marks of its stream.

    ``lower`` comes from the newest mark whose cut the position covers, ``upper`` from the first
    mark whose cut it strictly precedes. A position exactly at a cut counts as past it.

    Parameters
    ----------
    topology
        Of the stream.
    marks
        All of them, oldest first; about ``2 log2(len(marks))`` of them are read.
    position
        Of one reader or, joined, of a whole group.
    """
    passed = count_passed(topology, marks, position)
    # What lies strictly before a cut does not cover it, so the first such mark is not passed.
    # It is one of the next, nearly always, so those are read before the others.
    end, step = passed, 1
    while end < len(marks) and not precedes(topology, position, marks[end].cut):
        end, step = end + step, 2 * step
    ahead = bisect_left(
        marks,
        True,
        passed,
        min(end, len(marks)),
        key=lambda mark: precedes(topology, position, mark.cut),
    )
    return TimeWindow(
        lower=marks[passed - 1].lower if passed else None,
        upper=marks[ahead].upper if ahead < len(marks) else None,
    )


def count_passed(topology: Topology, marks: Sequence[Mark], position: Position) -> int:
    """Count the marks whose cuts a position covers; they come first, since cuts rise."""
    return bisect_left(marks, True, key=lambda mark: not covers(topology, position, mark.cut))


def joint_window(windows: Sequence[TimeWindow]) -> TimeWindow:
    """Return the joint window of several streams that are read together.

    Every event below ``lower`` has been read in all of them, so it is None while one of them has
    none; ``upper`` is None once one of them is at its tail. Without any, both are None.

    Examples
    --------
    >>> joint_window([TimeWindow(5, 9), TimeWindow(3, 7)])
    TimeWindow(lower=3, upper=9)
    >>> joint_window([TimeWindow(5, None), TimeWindow(None, 7)])
    TimeWindow(lower=None, upper=None)
    """
    lowers = [window.lower for window in windows if window.lower is not None]
    uppers = [window.upper for window in windows if window.upper is not None]
    return TimeWindow(
        lower=min(lowers, default=None) if len(lowers) == len(windows) else None,
        upper=max(uppers, default=None) if len(uppers) == len(windows) else None,
    )
