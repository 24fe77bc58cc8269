"""How far a partition is read, and what its clocks show: pure, the moments handed in."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegauge.topology import Position
from writer_client.observing.holding import PartitionTime


class Look(NamedTuple):
    """Where the partitions ended at some moment: all that was stored before it is below.

    Attributes
    ----------
    wall_ms
        Before the broker was asked.
    ends
        What it said.
    """

    wall_ms: int
    ends: Position


@dataclass(slots=True)
class Partition:
    """How far a partition is read, and its two clocks."""

    start: int
    read_to: int
    waits_for: tuple[int, int] | None = None
    """The end at a look, not reached yet, and when that was."""
    ended_ms: int | None = None
    """Everything stored before this moment is read."""
    time: PartitionTime = field(default_factory=PartitionTime)
    listened_ms: int = 0
    """How much time passed in which its writers could be heard."""

    @property
    def is_unread(self) -> bool:
        """Whether nothing of it is read, though there may be something."""
        return self.read_to == self.start and self.ended_ms is None

    def pass_to(self, moment_ms: int, longest_ms: int) -> None:
        """Let time pass; of a gap in which nothing was known only so much counts."""
        clock_ms = self.time.clock_ms
        if clock_ms is not None:
            self.listened_ms += min(max(0, moment_ms - clock_ms), longest_ms)
        self.time.clock_ms = moment_ms if clock_ms is None else max(moment_ms, clock_ms)

    def reach(self, longest_ms: int) -> None:
        """Take in that what a look saw is read, if it is."""
        if self.waits_for is not None and self.read_to >= self.waits_for[0]:
            self.ended_ms = max(self.waits_for[1], self.ended_ms or 0)
            self.pass_to(self.waits_for[1], longest_ms)
            self.waits_for = None
