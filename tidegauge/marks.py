"""Marks: what the controller concludes from all reports."""

import msgspec

from tidegauge.event_time import END_OF_TIME
from tidegauge.topology import Position


class Mark(msgspec.Struct, frozen=True):
    """Everything older than ``lower`` lies before ``cut``.

    Attributes
    ----------
    revision
        1, 2, 3 … in the stream, without gaps when written.
    lower
        The watermark, ms of event time; strictly rises from mark to mark.
    upper
        How far the writers behind the cut had noted time, ms: a hint, no bound on events.
    cut
        A stream cut; never goes back.
    marked_ms
        Wall clock at which it was made; None where nobody kept it. No part of what it says: two
        that differ in it alone are equal.
    """

    revision: int
    lower: int
    upper: int
    cut: Position
    marked_ms: int | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mark):
            return NotImplemented
        mine, its = ((m.revision, m.lower, m.upper, m.cut) for m in (self, other))
        return mine == its

    __hash__ = None  # type: ignore[assignment]

    @property
    def final(self) -> bool:
        """Whether the stream is sealed: no mark will follow."""
        return self.lower == END_OF_TIME
