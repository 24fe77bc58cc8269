"""Truncation: where a stream begins once its first events are gone, and for whom they stay.

What is gone is a down-set, as a position is: whatever is truncated, the rest begins at a stream cut.
"""

from collections.abc import Iterable

from tidegauge.errors import InvalidPositionError, shortened
from tidegauge.lattice import DownSet, down_set, frontier, join
from tidegauge.topology import Position, Topology


def truncated_at(
    topology: Topology, first: DownSet, tails: Position, position: Position
) -> DownSet:
    """Truncate what a position covers, which need not be a stream cut; what was truncated stays so.

    Raises
    ------
    InvalidPositionError
        If the position lies outside the stream.
    """
    stored = frontier(topology, first)
    for number, offset in position.items():
        if number not in topology:
            reason = f"there is no such segment; there are {shortened(str(sorted(topology.segments)))}"
            raise InvalidPositionError(number, offset, reason, stored)
        if not 0 <= offset <= tails[number]:
            reason = f"nothing is there to truncate; it goes from 0 to {tails[number]}"
            raise InvalidPositionError(number, offset, reason, stored)
    return join(topology, [first, position])


def spared(topology: Topology, gone: DownSet, needed_from: Iterable[Position]) -> DownSet:
    """Return what may go so that some positions can be read from: what lies before all of them."""
    for position in needed_from:
        before = down_set(topology, position)
        counts = ((number, min(count, before.get(number, 0))) for number, count in gone.items())
        gone = {number: count for number, count in counts if count}
    return gone
