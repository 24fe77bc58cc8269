"""Where to start in every segment, as one position."""

from tidegauge.topology import Position, Topology


def starting_position(topology: Topology, offsets: Position) -> dict[int, int]:
    """Make a position of where reading has to begin in each segment.

    A position that names a segment means all of its ancestors, too. So a successor is named
    only if everything before it may be left out; else reading comes to it from its start.

    The offsets name the first event of each segment that must not be missed, or its end.

    Examples
    --------
    0 was split into 1 and 2; something is wanted of 0, so 1 and 2 are read from their starts:

    >>> from tidegauge.topology import Segment
    >>> split = Topology([Segment(0, sealed_length=100), Segment(1, predecessors=(0,)),
    ...                   Segment(2, predecessors=(0,))])
    >>> starting_position(split, {0: 90, 1: 5, 2: 0})
    {0: 90}
    >>> starting_position(split, {0: 100, 1: 5, 2: 0})
    {1: 5, 2: 0}
    """
    passed: set[int] = set()
    position = {}
    implied: set[int] = set()
    segments = topology.segments
    for number in topology.in_order:
        segment = segments[number]
        if passed.issuperset(segment.predecessors):
            position[number] = offsets.get(number, 0)
            implied.update(segment.predecessors)
            if position[number] == segment.sealed_length:
                passed.add(number)
    return {number: at for number, at in position.items() if number not in implied}
