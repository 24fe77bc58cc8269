"""Topologies and positions as sets of events, enumerated one by one.

Nothing here is clever, and nothing here comes from the core: a segment is the events
``(number, 0)``, ``(number, 1)``, …, and what a position stands for is a set of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

Event: TypeAlias = tuple[int, int]
"""Segment number, and how many events lie before it in the segment."""
Events: TypeAlias = frozenset[Event]
Offsets: TypeAlias = Mapping[int, int]


@dataclass(frozen=True)
class Shape:
    """What continues what, and how many events the sealed segments hold."""

    predecessors: Mapping[int, tuple[int, ...]]
    lengths: Mapping[int, int | None] = field(default_factory=dict)

    @classmethod
    def of(cls, count: int) -> "Shape":
        return cls(dict.fromkeys(range(count), ()), dict.fromkeys(range(count)))

    def scaled(self, seal: Offsets, added: Mapping[int, tuple[int, ...]]) -> "Shape":
        return Shape(
            {**self.predecessors, **added}, {**self.lengths, **seal, **dict.fromkeys(added)}
        )

    @property
    def growing(self) -> list[int]:
        return [number for number, length in self.lengths.items() if length is None]

    def ancestors(self, number: int) -> set[int]:
        found: set[int] = set()
        for before in self.predecessors[number]:
            found |= {before} | self.ancestors(before)
        return found

    def successors(self, number: int) -> list[int]:
        return [after for after, before in self.predecessors.items() if number in before]

    def events_of(self, position: Offsets) -> Events:
        """All events below the offsets, and all of every ancestor of each segment named."""
        events: set[Event] = set()
        for number, offset in position.items():
            length = self.lengths[number]
            count = offset if length is None else min(offset, length)
            events |= first(number, count)
            for before in self.ancestors(number):
                events |= self.all_of(before)
        return frozenset(events)

    def all_of(self, number: int) -> set[Event]:
        """Every event of a sealed segment."""
        length = self.lengths[number]
        if length is None:
            msg = f"{number} still grows"
            raise ValueError(msg)
        return first(number, length)

    def is_complete(self, number: int, events: Events) -> bool:
        return self.lengths[number] is not None and self.all_of(number) <= events

    def is_open(self, number: int, events: Events) -> bool:
        return all(self.is_complete(before, events) for before in self.ancestors(number))

    def cut_of(self, events: Events) -> dict[int, int]:
        """The frontier: what is open and not complete, or complete with nothing open after."""
        return {
            number: count_in(events, number)
            for number in self.predecessors
            if self.is_open(number, events) and self._is_frontier(number, events)
        }

    def _is_frontier(self, number: int, events: Events) -> bool:
        return not self.is_complete(number, events) or not any(
            self.is_open(after, events) for after in self.successors(number)
        )


def first(number: int, count: int) -> set[Event]:
    return {(number, index) for index in range(count)}


def count_in(events: Iterable[Event], number: int) -> int:
    return sum(1 for segment, _ in events if segment == number)


def union(sets: Iterable[Events]) -> Events:
    return frozenset[Event]().union(*sets)
