"""For which writers an observer speaks: pure, the clocks handed in."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from writer_client._notes import Last
from writer_client.observing.holding import Comparison
from writer_client.observing.partition import Partitions
from writer_client.observing.rules import Guess
from writer_client.strategies import Strategy


@dataclass(slots=True)
class Source:
    """A writer that this observer speaks for."""

    writer: str
    partition: int
    strategy: Strategy
    offset: int
    heard_ms: int
    """On its partition's clock of what was listened to."""
    comparison: Comparison = field(default_factory=Comparison)
    is_registered: bool = False
    registered: int | None = None
    sent: int | None = None
    """The greatest that was to be noted: whether it arrived is not always known."""
    accepted: int | None = None
    reported_ms: int = 0
    kept: list[int] = field(default_factory=list)
    """The times of its steps that are kept to be noted; they rise."""
    below: list[tuple[int, int]] = field(default_factory=list)
    """Of each record that came below a kept step: its time, and the first step that it is below."""

    def may_note(self, time: int) -> bool:
        """Return whether a time is above what it has noted, and not below what it may have noted."""
        is_above = self.is_registered and (self.accepted is None or time > self.accepted)
        return is_above and (self.sent is None or time >= self.sent)

    def compare(self, time: int, steps: Sequence[int]) -> None:
        """Remember the first kept step that a record is below, if there is one."""
        at = bisect_right(steps, time)
        if at < len(steps):
            self.below.append((time, steps[at]))

    def settle(self, least: int | None) -> list[tuple[int, int]]:
        """Drop the kept steps; return what came below one that is noted: those up to the least guess are."""
        below, self.kept, self.below = self.below, [], []
        return [] if least is None else [late for late in below if late[1] <= least]

    @property
    def last_time(self) -> int | None:
        """Its newest time, which may be repeated."""
        return self.registered if self.accepted is None else self.accepted


class Odd(NamedTuple):
    """A record whose time is below or above a limit."""

    writer: str
    time: int
    limit: int


@dataclass(slots=True)
class Counts:
    """What an observer has seen.

    Attributes
    ----------
    events
        Records read.
    late
        Of these, how many were below what had been noted, or a writer's time at the start.
    unreadable
        How many had no time that could be read.
    promises, fallen
        Promises read, and how many of these were below one before: they were delivered again.
    first_late, first_future
        The first record that was late, and the first whose time was too far in the future.
    seen, silent
        All writers there were in its partitions, and those that left for their silence since they
        were read last.
    """

    events: int = 0
    late: int = 0
    unreadable: int = 0
    promises: int = 0
    fallen: int = 0
    first_late: Odd | None = None
    first_future: Odd | None = None
    seen: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)


class Sources(dict[str, Source]):
    """The writers that an observer speaks for, by name.

    Parameters
    ----------
    partitions
        What it reads.
    guess
        How time is guessed.
    idle_ms
        A writer that is silent for so long leaves; None: never.
    """

    def __init__(self, partitions: Partitions, guess: Guess, *, idle_ms: int | None) -> None:
        super().__init__()
        self._partitions = partitions
        self._guess = guess
        self._idle_ms = idle_ms
        self._given_up: dict[str, int] = {}
        self.counts = Counts()

    @property
    def count(self) -> int:
        """How many it speaks for."""
        return sum(not one.comparison.is_out for one in self.values())

    @property
    def holding(self) -> dict[str, int | None]:
        """Who holds the others, and how far behind these; None: without a time to be believed."""
        return self._behind(is_out=False)

    @property
    def left_out(self) -> dict[str, int | None]:
        """Who did so for too long."""
        return self._behind(is_out=True)

    def _behind(self, *, is_out: bool) -> dict[str, int | None]:
        comparisons = ((name, one.comparison) for name, one in self.items())
        return {
            name: one.behind_ms
            for name, one in comparisons
            if one.is_behind and one.is_out == is_out
        }

    def expect(self, writer: str, partition: int) -> None:
        """Speak for a writer from now on, before anything of it is read."""
        if writer not in self:
            place = self._partitions[partition]
            strategy = self._guess.make()
            self[writer] = Source(writer, partition, strategy, place.start, place.listened_ms)
            self.counts.seen.add(writer)
            self.counts.silent.discard(writer)

    def heard(self, writer: str, partition: int) -> Source | None:
        """Return the source of a record, a new one perhaps; None if it is given up."""
        if writer in self._given_up:
            return None
        self.expect(writer, partition)
        return self[writer]

    def count_late(self, writer: str, time: int, noted: int) -> None:
        """Count a record that is below what was noted before it."""
        self.counts.late += 1
        self.counts.first_late = self.counts.first_late or Odd(writer, time, noted)

    def revoke(self, partition: int) -> None:
        """Speak no more for the writers of a partition: another observer does."""
        for name in [n for n, one in self.items() if one.partition == partition]:
            del self[name]
        suffix = str(partition)
        for names in (self.counts.seen, self.counts.silent):
            names -= {name for name in names if name.rpartition(".")[2] == suffix}
        self._given_up = {n: p for n, p in self._given_up.items() if p != partition}

    def newcomers(self) -> list[str]:
        """Name the writers that have to be registered."""
        return [
            name
            for name, one in self.items()
            if not one.is_registered and not one.comparison.is_out
        ]

    def give_up(self, writer: str) -> bool:
        """Speak no more for a writer, until its partition is assigned anew; return whether it did."""
        source = self.pop(writer, None)
        if source is not None:
            self._given_up[writer] = source.partition
        return source is not None

    def silent(self) -> list[Last]:
        """Name the writers that have been silent for too long, with the last that they say.

        Those first that were never heard and held the others, who note before they leave themselves.
        """
        if self._idle_ms is None:
            return []
        found = {
            name: one
            for name, one in self.items()
            if self._partitions[one.partition].listened_ms - one.heard_ms >= self._idle_ms
        }
        unheard = {name: one for name, one in found.items() if not one.comparison.is_heard}
        return _lasts(unheard or found)

    def unheard(self) -> list[Last]:
        """Name the writers of which nothing was read, and will be when no more is."""
        return _lasts({name: one for name, one in self.items() if not one.comparison.is_heard})

    def overdue(self) -> list[Last]:
        """Name the writers that held the others for too long, with the last that they say."""
        return _lasts({name: one for name, one in self.items() if one.comparison.is_overdue})

    def leave(self, writer: str) -> None:
        """Record that a writer has left for its silence; its next event makes it new."""
        if self.pop(writer, None) is not None:
            self.counts.silent.add(writer)

    def leave_out(self, writer: str) -> None:
        """Record that a writer has left for holding the others; within the bound it is new."""
        source = self.get(writer)
        if source is not None:
            source.comparison.is_out, source.comparison.is_overdue = True, False
            source.is_registered, source.accepted, source.sent = False, None, None


def _lasts(sources: Mapping[str, Source]) -> list[Last]:
    return [
        Last(name, one.last_time, {one.partition: one.offset})
        for name, one in sources.items()
        if one.is_registered
    ]
