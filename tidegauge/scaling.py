"""Scaling: which segments continue those that are sealed, by the ranges of keys that they own."""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from tidegauge.topology import KeyRange, Segment, Topology

MOST_SEGMENTS = 10_000
"""Of a stream in all, sealed ones included: every one is in each answer that describes it."""


def continuing(
    topology: Topology, seal: Collection[int], ranges: Sequence[KeyRange]
) -> list[Segment]:
    """Make the segments that continue some growing ones, one for each range and in their order.

    The predecessors of each are the sealed ones that own a part of its range.

    Parameters
    ----------
    topology
        Of an embedded log.
    seal
        Growing segments.
    ranges
        Together exactly what those own.

    Raises
    ------
    ValueError
        If the ranges do not tile what is sealed; names the first gap or overlap.

    Examples
    --------
    >>> split = continuing(Topology.of_equal_ranges(1), [0], [KeyRange(0, 0.5), KeyRange(0.5, 1)])
    >>> [(segment.number, segment.predecessors) for segment in split]
    [(1, (0,)), (2, (0,))]
    """
    owned = sorted((key_range, n) for n in seal if (key_range := topology[n].key_range))
    _check_tiling([key_range for key_range, _ in owned], ranges)
    lows = [key_range.low for key_range, _ in owned]
    added = []
    for number, key_range in enumerate(ranges, max(topology.segments) + 1):
        overlapping = owned[
            bisect_right(lows, key_range.low) - 1 : bisect_left(lows, key_range.high)
        ]
        before = tuple(sorted(sealed for _, sealed in overlapping))
        added.append(Segment(number, key_range, before))
    return added


def continued(
    topology: Topology, seal: Collection[int], ranges: Sequence[KeyRange]
) -> list[Segment]:
    """Return the segments that continue others in just this way already; none if none do."""
    after = sorted({number for sealed in seal for number in topology.successors[sealed]})
    segments = [topology[number] for number in after]
    before = {number for segment in segments for number in segment.predecessors}
    is_same = before == set(seal) and sorted(ranges) == sorted(
        segment.key_range for segment in segments if segment.key_range
    )
    return segments if is_same else []


def continuation(topology: Topology, number: int) -> list[Segment]:
    """List all that a writer to a sealed segment must know to route on.

    These are the segments that continue it, what these continue as well, and what continues that in
    turn: of every sealed one all successors are among them, so that no key is left without one.
    """
    numbers: set[int] = set()
    waiting = [number]
    while waiting:
        number = waiting.pop()
        if number not in numbers:
            numbers.add(number)
            for after in topology.successors[number]:
                waiting += [after, *topology[after].predecessors]
    return [topology[number] for number in sorted(numbers)]


def equal_parts(whole: KeyRange, parts: int) -> list[KeyRange]:
    """Divide a range into some of equal size."""
    size = (whole.high - whole.low) / parts
    inner = [whole.low + size * at for at in range(1, parts)]
    return [KeyRange(*edges) for edges in pairwise([whole.low, *inner, whole.high])]


def _check_tiling(owned: Iterable[KeyRange], ranges: Iterable[KeyRange]) -> None:
    """Walk over the edges of all ranges, counting what is owned and what is given from each on."""
    steps: defaultdict[float, list[int]] = defaultdict(lambda: [0, 0])
    for kind, some in enumerate((owned, ranges)):
        for low, high in some:
            if not low < high:
                msg = f"[{low:g}, {high:g}) is empty; a range ends above where it begins"
                raise ValueError(msg)
            steps[low][kind] += 1
            steps[high][kind] -= 1
    wanted = given = 0
    for low, high in pairwise(sorted(steps)):
        wanted, given = wanted + steps[low][0], given + steps[low][1]
        if given == wanted:
            continue
        flaw = "is in none of the ranges, and is sealed: give all that the sealed segments own"
        if wanted == 0:
            flaw = "is not owned by what is sealed; seal the segment that owns it, too"
        elif given > 1:
            flaw = "is in more than one range; a key belongs to one segment"
        msg = f"[{low!r}, {high!r}) {flaw}"
        raise ValueError(msg)
