"""Noted times until they are accepted, each with the position it stands for.

An event belongs to the first note after it. A note's position names the segments in which
events belong to it, with the offset behind the last of them: what earlier notes named stays
valid, because the service joins the positions of a writer.
"""

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa

from tidegauge.topology import Position


@dataclass(slots=True)
class _Note:
    time: int
    end: int
    """It covers the events with lower ordinals."""
    position: dict[int, int]


class Notes:
    """The notes of one writer, in order."""

    def __init__(self) -> None:
        self._waiting: list[_Note] = []
        self._on_their_way = 0
        self._unclaimed: dict[int, int] = {}
        """Stored since the newest note."""
        self.made = 0
        """How many notes there ever were; one that took over another is not counted."""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def first(self) -> int | None:
        """The earliest time that is not accepted."""
        return self._waiting[0].time if self._waiting else None

    @property
    def accepted(self) -> int:
        """How many of those made were accepted."""
        return self.made - len(self._waiting)

    def add(self, time: int, end: int) -> None:
        """Note a time behind the events below an ordinal.

        It takes over the note before it if that is not on its way and nothing was written in
        between: both stand for one position, and the later time promises more.
        """
        newest = self._waiting[-1] if len(self._waiting) > self._on_their_way else None
        if newest is not None and newest.end == end:
            newest.time = time
            return
        self._waiting.append(_Note(time, end, self._unclaimed))
        self._unclaimed = {}
        self.made += 1

    def settle(self, segment: int, ordinals: pa.Array, next_offset: int) -> None:
        """Take in that events are stored, the last of them right before an offset."""
        first_offset = next_offset - len(ordinals)
        at = bisect_right(self._waiting, ordinals[0].as_py(), key=lambda note: note.end)
        settled = 0
        for note in islice(self._waiting, at, None):
            reached = bisect_left(ordinals, note.end, lo=settled, key=lambda one: one.as_py())
            if reached > settled:
                end = first_offset + reached
                note.position[segment] = max(end, note.position.get(segment, 0))
            settled = reached
            if settled == len(ordinals):
                return
        self.take_in({segment: next_offset})

    def take_in(self, position: Position) -> None:
        """Let the next note cover a position, too."""
        for segment, offset in position.items():
            self._unclaimed[segment] = max(offset, self._unclaimed.get(segment, 0))

    def send(self, *, stored_below: int, limit: int) -> list[tuple[int, Position]]:
        """Put the first notes whose events are all stored on their way."""
        ready = bisect_right(self._waiting, stored_below, key=lambda note: note.end)
        self._on_their_way = min(ready, limit)
        return [(note.time, note.position) for note in self._waiting[: self._on_their_way]]

    def accept(self) -> None:
        """Take in that the notes on their way were accepted."""
        del self._waiting[: self._on_their_way]
        self._on_their_way = 0
