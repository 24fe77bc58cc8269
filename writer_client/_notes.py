"""Noted times until they are accepted, each with the position that it covers. No I/O, no lock.

Whatever is written has a number, by which all is in order. A note covers what has a lower number than
its own; its position names the partitions in which some of that is stored, with the offset behind the
last. What earlier notes named stays valid, because the service joins the positions of a writer.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from tidegauge.topology import Position

BULK = 1_000
"""Reports a call: well below what a body may have."""
_MOST = 10_000
"""Notes that wait; the next ones give up their own cuts, not their times."""


class Note(NamedTuple):
    """A noted time of a writer, and the position that it covers."""

    writer: str
    time: int
    position: Position


class Last(NamedTuple):
    """What a writer says as it leaves; no time if it never had one."""

    writer: str
    time: int | None
    position: Position


@dataclass(slots=True)
class _Waiting:
    time: int
    end: int
    """It covers what has lower numbers."""
    position: dict[int, int]


class Notes:
    """The notes of one writer, in order."""

    def __init__(self, last_time: int | None = None) -> None:
        self.last_time = last_time
        """The newest noted time, ms."""
        self.accepted_time: int | None = None
        """The newest time that the service has, ms."""
        self.reached: dict[int, int] = {}
        """How far everything is stored."""
        self.made = 0
        """How many notes there ever were; one that took over another is not counted."""
        self._waiting: list[_Waiting] = []
        self._on_their_way = 0
        self._unclaimed: dict[int, int] = {}
        """Reached since the newest note."""
        self._named: dict[int, int] = {}
        """What the notes that were sent have named."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def accepted(self) -> int:
        """How many of those made were accepted."""
        return self.made - len(self._waiting)

    def add(self, time: int, end: int = 0, *, since: int | None = None) -> None:
        """Note a time for what has a lower number.

        It takes over the note before it if that is not on its way and nothing was written in
        between: both cover the same, and the later time promises more.

        Parameters
        ----------
        time
            Not below the newest.
        end
            The number.
        since
            The least one of whatever is empty below ``end``; ``end`` itself if left out.
        """
        self.last_time = time
        newest = self._waiting[-1] if len(self._waiting) > self._on_their_way else None
        is_same = newest is not None and newest.end >= (end if since is None else since)
        if newest is not None and (is_same or len(self._waiting) > _MOST):
            newest.time, newest.end = time, end
            raise_to(newest.position, self._unclaimed)
        else:
            self._waiting.append(_Waiting(time, end, self._unclaimed))
            self.made += 1
        self._unclaimed = {}

    def reach(self, position: Position, number: int | None = None) -> None:
        """Record that everything is stored up to a position.

        The first note behind what has the number covers it; the next one that is made, if left out.
        """
        at = len(self._waiting) if number is None else self.ready(number)
        self._reach(position, at)

    def cover(self, ends: Position) -> None:
        """Let the first note that is not on its way cover the ends of the log, and so those behind it."""
        self._reach(ends, self._on_their_way)

    def _reach(self, position: Position, at: int) -> None:
        claimed = self._waiting[at].position if at < len(self._waiting) else self._unclaimed
        for partition, offset in position.items():
            # A record that was retried may lie behind one that was produced after it.
            furthest = max(offset, self.reached.get(partition, 0))
            self.reached[partition] = claimed[partition] = furthest

    def settle(self, segment: int, ordinals: Sequence[Any], next_offset: int) -> None:
        """Record that events are stored, the last of them right before an offset.

        Their numbers are scalars of Arrow; segments are settled in any order.
        """
        raise_to(self.reached, {segment: next_offset})
        first_offset = next_offset - len(ordinals)
        settled = 0
        for note in islice(self._waiting, self.ready(ordinals[0].as_py()), None):
            found = bisect_left(ordinals, note.end, lo=settled, key=lambda one: one.as_py())
            if found > settled:
                raise_to(note.position, {segment: first_offset + found})
            settled = found
            if settled == len(ordinals):
                return
        raise_to(self._unclaimed, {segment: next_offset})

    def ready(self, below: int) -> int:
        """Count the first notes that cover nothing but what has a number below one."""
        return bisect_right(self._waiting, below, key=lambda note: note.end)

    def send(self, limit: int, *, below: int = 0) -> list[tuple[int, Position]]:
        """Put the first notes on their way, if all that they cover has a number below one."""
        self._on_their_way = min(self.ready(below), limit)
        sent: list[tuple[int, Position]] = []
        for note in self._waiting[: self._on_their_way]:
            # The service refuses a position that goes back, as that of a note made before `cover`.
            position = {
                partition: max(offset, self._named.get(partition, 0))
                for partition, offset in note.position.items()
            }
            self._named |= position
            sent.append((note.time, position))
        return sent

    def accept(self) -> None:
        """Record that the notes on their way were accepted."""
        if self._on_their_way:
            self.accepted_time = self._waiting[self._on_their_way - 1].time
        del self._waiting[: self._on_their_way]
        self._on_their_way = 0

    def put_back(self) -> None:
        """Let the notes on their way wait again."""
        self._on_their_way = 0

    def accept_beside(self, time: int | None, position: Position) -> None:
        """Record a time that was accepted and never waited here, and the position that it covers.

        Notes below it are not reported any more; the next note names the position, too.
        """
        self.reach(position)
        if time is None:
            return
        self.accepted_time = time
        self.last_time = time if self.last_time is None else max(time, self.last_time)
        passed = bisect_right(self._waiting, time, key=lambda note: note.time)
        for note in self._waiting[:passed]:
            raise_to(self._unclaimed, note.position)
        del self._waiting[:passed]

    def drop(self, number: int) -> None:
        """Forget all notes behind what has a number; later ones may be below them."""
        at = self.ready(number)
        for note in self._waiting[at:]:
            raise_to(self._unclaimed, note.position)
        del self._waiting[at:]
        self.last_time = self._waiting[-1].time if self._waiting else self.accepted_time

    def promise(self, registered: int | None) -> int | None:
        """Return what a beat may say of a writer whose notes are not accepted yet.

        The time of its registration, and nothing above a note that waits; what will be noted must not be below it.
        """
        if registered is None:
            return None
        said = min([registered, *(note.time for note in self._waiting[:1])])
        if self.accepted_time is None:
            self.accepted_time = said
        if self.last_time is None:
            self.last_time = said
        return said


def raise_to(position: dict[int, int], other: Position) -> None:
    """Raise a position to another one, where that is greater."""
    for partition, offset in other.items():
        position[partition] = max(offset, position.get(partition, 0))
