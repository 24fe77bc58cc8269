"""How far a partition is read, and what its clocks show: pure, the moments handed in."""

from dataclasses import dataclass, field
from typing import NamedTuple

from tidegauge.topology import Position
from writer_client.observing.holding import Moment, PartitionTime


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
        """Record that what a look saw is read, if it is."""
        if self.waits_for is not None and self.read_to >= self.waits_for[0]:
            self.ended_ms = max(self.waits_for[1], self.ended_ms or 0)
            self.pass_to(self.waits_for[1], longest_ms)
            self.waits_for = None


class Partitions(dict[int, Partition]):
    """The partitions that an observer reads; of a gap in which nothing was known only so much counts."""

    def __init__(self, longest_ms: int) -> None:
        super().__init__()
        self._longest_ms = longest_ms

    def assign(self, number: int, start: int) -> None:
        """Begin to read a partition; everything below its start was read, or is nobody's concern."""
        self[number] = Partition(start, start)

    @property
    def position(self) -> Position:
        """How far each partition is read."""
        # A copy at once: partitions are revoked in the consumer's thread.
        return {number: one.read_to for number, one in list(self.items())}

    @property
    def has_unread(self) -> bool:
        """Whether there is one of which nothing is read, though there may be something."""
        return any(one.is_unread for one in self.values())

    def pass_to(self, number: int, moment_ms: int) -> None:
        """Let the time of a partition pass."""
        self[number].pass_to(moment_ms, self._longest_ms)

    def heard_ms(self, number: int, offset: int) -> int:
        """Return when a record is heard, on the clock of what was listened to: with the look that saw it."""
        place = self[number]
        clock_ms, (end, look_ms) = place.time.clock_ms, place.waits_for or (0, 0)
        passes_ms = 0 if clock_ms is None or offset >= end else max(0, look_ms - clock_ms)
        return place.listened_ms + min(passes_ms, self._longest_ms)

    def read_to(self, number: int, offset: int) -> None:
        """Record that everything below an offset is read, records or none."""
        place = self.get(number)
        if place is not None:
            place.read_to = max(offset, place.read_to)
            place.reach(self._longest_ms)

    def look(self, look: Look) -> None:
        """Record where the partitions end; that counts once it is read so far."""
        for number, place in self.items():
            if place.waits_for is None and number in look.ends:
                place.waits_for = look.ends[number], look.wall_ms
            place.reach(self._longest_ms)

    def behind(self, ends: Position) -> int:
        """Count the offsets between what is read and the ends."""
        return sum(max(0, ends.get(number, 0) - one.read_to) for number, one in self.items())

    def moments(self, limit_ms: int, *, goes_on: bool) -> dict[int, Moment | None]:
        """Let time pass up to a look, and return what the clocks show."""
        return {
            number: one.time.look(limit_ms, goes_on=goes_on) for number, one in self.items()
        }
