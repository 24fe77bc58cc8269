"""The lattice of positions: five pure functions that all coordination is built on.

A position means a *down-set*: all events below its offsets and all of every ancestor of
each segment that it names. As a vector of counts, one a segment, in which a segment named or
above zero has all its ancestors full, union is the maximum and inclusion is ``>=``.
`down_set` makes that vector; the five functions take any positions, vectors and cuts included.
"""

from collections.abc import Iterable
from typing import TypeAlias

from tidegauge.topology import Position, Topology

DownSet: TypeAlias = dict[int, int]
"""Events of each segment that are in the set; segments with none are left out."""


class UnknownSegmentError(LookupError):
    """A position names a segment that its stream does not have."""

    def __init__(self, segment: int) -> None:
        self.segment = segment
        super().__init__(f"there is no segment {segment}")


def down_set(topology: Topology, position: Position) -> DownSet:
    """Count the events that a position means.

    An offset beyond a sealed length counts as that length.

    Raises
    ------
    UnknownSegmentError
        If the position names a segment that the topology does not have.
    """
    counts: DownSet = {}
    segments = topology.segments
    for number, offset in position.items():
        segment = segments.get(number)
        if segment is None:
            raise UnknownSegmentError(number)
        length = segment.sealed_length
        count = offset if length is None or offset < length else length
        if count > counts.get(number, 0):
            counts[number] = count
    if topology.has_history:
        counts.update(topology.filled(position))
    return counts


def join(topology: Topology, positions: Iterable[Position]) -> DownSet:
    """Return the union of down-sets: the least position that covers all of them."""
    united: DownSet = {}
    for position in positions:
        raise_to(united, down_set(topology, position))
    return united


def covers(topology: Topology, position: Position, cut: Position) -> bool:
    """Return whether every event of the cut is in the position.

    It visits the segments that either names, however many lie before them.

    Raises
    ------
    UnknownSegmentError
        If one of them names a segment that the topology does not have.
    """
    check_known(topology, position)
    passed = topology.ancestors.of(position)
    for number, offset in cut.items():
        held = _held(topology, position, passed, number)
        length = topology.segments[number].sealed_length
        if held < (offset if length is None or offset < length else length):
            return False
        # Those before it that the position does not name, nor anything after them.
        between = topology.ancestors.of([number]) & ~passed
        if between and any(
            _held(topology, position, passed, before) != topology.segments[before].sealed_length
            for before in topology.ancestors.listed(between)
        ):
            return False
    return True


def check_known(topology: Topology, position: Position) -> None:
    """Raise `UnknownSegmentError` if a position names a segment that the topology does not have."""
    for number in position:
        if number not in topology.segments:
            raise UnknownSegmentError(number)


def precedes(topology: Topology, position: Position, cut: Position) -> bool:
    """Return whether the position is a proper subset of the cut."""
    return covers(topology, cut, position) and not covers(topology, position, cut)


def cut_of(topology: Topology, position: Position) -> Position:
    """Return the frontier of a down-set: its stream cut.

    Every open segment that is not complete, with its offset, and every open complete segment
    none of whose successors is open, at its sealed length.

    Examples
    --------
    0 and 1, sealed at 100 each, merge into 2:

    >>> from tidegauge.topology import Segment
    >>> merged = Topology([Segment(0, sealed_length=100), Segment(1, sealed_length=100),
    ...                    Segment(2, predecessors=(0, 1))])
    >>> cut_of(merged, {0: 100, 1: 40})
    {0: 100, 1: 40}
    >>> cut_of(merged, {0: 100, 1: 100})
    {2: 0}
    """
    return frontier(topology, down_set(topology, position))


def frontier(topology: Topology, counts: DownSet) -> Position:
    """Return the stream cut of what is a down-set already; see `cut_of`."""
    if not topology.has_history:
        return {number: counts.get(number, 0) for number in topology.in_order}
    cut: DownSet = {}
    visited: set[int] = set()
    # From the ends backwards: what lies before an open segment is complete, and not visited.
    waiting = list(topology.ends)
    while waiting:
        number = waiting.pop()
        if number in visited:
            continue
        visited.add(number)
        if not _is_open(topology, counts, number):
            waiting += topology[number].predecessors
        elif counts.get(number, 0) != topology[number].sealed_length or not any(
            _is_open(topology, counts, after) for after in topology.successors[number]
        ):
            cut[number] = counts.get(number, 0)
    return {number: cut[number] for number in sorted(cut)}


def count_between(topology: Topology, start: Position, end: Position) -> int:
    """Count the events in the down-set of ``end`` and not in that of ``start``."""
    return sum(stop - first for first, stop in events_between(topology, start, end).values())


def events_between(
    topology: Topology, start: Position, end: Position
) -> dict[int, tuple[int, int]]:
    """Return from which offset to which each segment has events in ``end`` and not in ``start``."""
    begun = down_set(topology, start)
    return {
        number: (begun.get(number, 0), count)
        for number, count in down_set(topology, end).items()
        if count > begun.get(number, 0)
    }


def includes(outer: Position, inner: Position) -> bool:
    """Return whether one down-set holds every event of another."""
    return all(outer.get(number, 0) >= count for number, count in inner.items())


def raise_to(counts: DownSet, other: DownSet) -> None:
    """Add a down-set to another, in place."""
    for number, count in other.items():
        if count > counts.get(number, 0):
            counts[number] = count


def _held(topology: Topology, position: Position, passed: int, number: int) -> int:
    """Count the events of a segment in a position, of which all that is ``passed`` is complete."""
    segment = topology.segments.get(number)
    if segment is None:
        raise UnknownSegmentError(number)
    length = segment.sealed_length
    if length is not None and topology.ancestors.has(number, passed):
        return length
    offset = max(0, position.get(number, 0))
    return offset if length is None or offset < length else length


def _is_open(topology: Topology, counts: DownSet, number: int) -> bool:
    """Return whether a down-set has all before a segment."""
    segments = topology.segments
    return all(
        counts.get(before, 0) == segments[before].sealed_length
        for before in topology.decisive[number]
    )
