"""Whose time an observer notes, which time, and at which position: pure, the clocks handed in.

Each writer notes the *least* guess of all writers of this observer, at its own newest position. A
writer that has no guess yet holds them all; one that was silent for so long leaves. One that is far
behind the others notes its own guess, and leaves if that lasts. What is noted covers only what was
read before the guess.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegauge.topology import Position
from writer_client.observing.holding import Standing, look
from writer_client.observing.partition import Look, Partition
from writer_client.observing.rules import Guess
from writer_client.strategies import Now, ObservedEvent, Strategy

BULK = 1_000
"""Reports a call: well below what a body may have."""


class Row(NamedTuple):
    """A record, as far as it matters.

    Attributes
    ----------
    writer
        Whose it is; None for somebody who notes time by itself.
    partition, offset
        Where it lies.
    event_time
        In ms; None if it could not be read.
    logged_ms
        Its timestamp, from which silence is counted in a backlog; None if it has none.
    """

    writer: str | None
    partition: int
    offset: int
    event_time: int | None
    logged_ms: int | None


class Note(NamedTuple):
    """What to note for a writer."""

    writer: str
    time: int
    position: Position


class Last(NamedTuple):
    """What a writer says as it leaves; no time if it never had one."""

    writer: str
    time: int | None
    position: Position


@dataclass(slots=True)
class _Source:
    """A writer that this observer speaks for."""

    partition: int
    strategy: Strategy
    offset: int
    heard_ms: int
    """On its partition's clock of what was listened to."""
    standing: Standing = field(default_factory=Standing)
    is_registered: bool = False
    told: int | None = None
    said: int | None = None
    """The greatest that was to be noted: whether it arrived is not always known."""
    noted: int | None = None
    reported_ms: int = 0

    def may_note(self, time: int) -> bool:
        """Whether a time is above what it stands at, and not below what it may stand at."""
        is_above = self.is_registered and (self.noted is None or time > self.noted)
        return is_above and (self.said is None or time >= self.said)

    @property
    def last_time(self) -> int | None:
        """What it stands at, and may be repeated."""
        return self.told if self.noted is None else self.noted


@dataclass(slots=True)
class Counts:
    """What an observer has seen.

    Attributes
    ----------
    events
        Records read.
    late
        Of these, how many were below what had been noted, or where a writer stood at the start.
    unreadable
        How many had no time that could be read.
    seen, silent
        All writers there were in its partitions, and those that left for their silence since they
        were read last.
    """

    events: int = 0
    late: int = 0
    unreadable: int = 0
    seen: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)


class Observation:
    """All writers of one observer.

    Parameters
    ----------
    guess
        How time is guessed.
    idle_ms
        A writer that is silent for so long leaves; None: never.
    hold_ms
        So does one that is farther behind the next one for so long; None: never.
    """

    def __init__(self, guess: Guess, *, idle_ms: int | None, hold_ms: int | None) -> None:
        self._guess = guess
        self._idle_ms = idle_ms
        # A guess by the clock is nobody's events.
        self._hold_ms = None if guess.needs_end else hold_ms
        # As the service counts silence: a gap in which nobody was heard is no proof of it.
        self._longest_ms = 0 if idle_ms is None else -(-idle_ms // 2)
        self._partitions: dict[int, Partition] = {}
        self._sources: dict[str, _Source] = {}
        self._given_up: dict[str, int] = {}
        self._reached: int | None = None
        """The greatest time that one of them stands at, or stood."""
        self._steps: list[Note] = []
        self._stepped: int | None = None
        """The least guess at the latest step."""
        self.counts = Counts()
        self.beat_ms: int | None = None
        """How often a time is repeated, as the service wants it."""
        self.resolution_ms = 0
        """Marks nearer to each other in event time than this are left out by the service."""

    @property
    def position(self) -> Position:
        """How far each partition of this observer is read."""
        # A copy at once: partitions are revoked in the consumer's thread.
        return {number: one.read_to for number, one in list(self._partitions.items())}

    @property
    def writers(self) -> int:
        """How many it speaks for."""
        return sum(not one.standing.is_out for one in self._sources.values())

    @property
    def holding(self) -> dict[str, int | None]:
        """Who holds the others, and how far behind these; None: without a time to be believed."""
        return self._behind(is_out=False)

    @property
    def left_out(self) -> dict[str, int | None]:
        """Who did so for too long."""
        return self._behind(is_out=True)

    def _behind(self, *, is_out: bool) -> dict[str, int | None]:
        standings = ((name, one.standing) for name, one in self._sources.items())
        return {
            name: one.behind_ms
            for name, one in standings
            if one.is_behind and one.is_out == is_out
        }

    def assign(self, partition: int, start: int) -> None:
        """Begin to read a partition; everything below its start was read, or is nobody's concern."""
        self._partitions[partition] = Partition(start, start)

    def revoke(self, partition: int) -> None:
        """Speak no more for the writers of a partition: another observer does."""
        self._partitions.pop(partition, None)
        self._steps = [one for one in self._steps if partition not in one.position]
        for name in [n for n, one in self._sources.items() if one.partition == partition]:
            del self._sources[name]
        suffix = str(partition)
        for names in (self.counts.seen, self.counts.silent):
            names -= {name for name in names if name.rpartition(".")[2] == suffix}
        self._given_up = {n: p for n, p in self._given_up.items() if p != partition}

    def expect(self, writer: str, partition: int) -> None:
        """Speak for a writer from now on, before anything of it is read."""
        if writer not in self._sources:
            place = self._partitions[partition]
            strategy = self._guess.make()
            self._sources[writer] = _Source(partition, strategy, place.start, place.listened_ms)
            self.counts.seen.add(writer)
            self.counts.silent.discard(writer)

    def newcomers(self) -> list[str]:
        """Name the writers that have to be registered."""
        return [
            name
            for name, one in self._sources.items()
            if not one.is_registered and not one.standing.is_out
        ]

    def admit(self, writer: str, told: int | None, now_ms: int) -> None:
        """Take in that a writer is registered, and where it stands."""
        source = self._sources.get(writer)
        if source is not None:
            source.is_registered, source.told, source.reported_ms = True, told, now_ms
            self._reach(told)

    def give_up(self, writer: str) -> bool:
        """Speak no more for a writer, until its partition is assigned anew; tell whether it did."""
        source = self._sources.pop(writer, None)
        if source is not None:
            self._given_up[writer] = source.partition
        return source is not None

    def read(self, row: Row, *, latest_ms: int, wall_ms: int) -> None:
        """Take in a record; those of partitions that are revoked are left out.

        Parameters
        ----------
        row
            The record.
        latest_ms
            An event time above this is too far in the future to be believed.
        wall_ms
            The clock.
        """
        place = self._partitions.get(row.partition)
        if place is None or row.offset < place.read_to:
            return
        self.counts.events += 1
        self.counts.unreadable += row.event_time is None
        # A clock that is ahead tells nothing of when its record was stored.
        if row.logged_ms is not None and row.logged_ms <= wall_ms:
            place.pass_to(row.logged_ms, self._longest_ms)
        if row.writer is not None and row.writer not in self._given_up:
            self.expect(row.writer, row.partition)
            self._hear(self._sources[row.writer], row, place, latest_ms)
        self.read_to(row.partition, row.offset + 1)

    def _hear(self, source: _Source, row: Row, place: Partition, latest_ms: int) -> None:
        time, standing = row.event_time, source.standing
        # Who holds the others stands where it does itself.
        reached = self._reached if source.noted is None else source.noted
        if time is not None and reached is not None and time < reached:
            self.counts.late += 1
        now = Now(wall_ms=0, running_ms=place.listened_ms, latest_ms=latest_ms)
        source.strategy.observe(ObservedEvent(time), now)
        is_believed = time is not None and time <= latest_ms
        standing.hear(time if is_believed else None, place.time.clock_ms)
        source.heard_ms, source.offset = place.listened_ms, row.offset + 1

    def read_to(self, partition: int, offset: int) -> None:
        """Take in that everything below an offset is read, records or none."""
        place = self._partitions.get(partition)
        if place is not None:
            place.read_to = max(offset, place.read_to)
            place.reach(self._longest_ms)

    def look(self, look: Look) -> None:
        """Take in where the partitions end; that counts once it is read so far."""
        for number, place in self._partitions.items():
            if place.waits_for is None and number in look.ends:
                place.waits_for = look.ends[number], look.wall_ms
            place.reach(self._longest_ms)

    def behind(self, ends: Position) -> int:
        """Count the offsets between what is read and the ends."""
        places = self._partitions.items()
        return sum(max(0, ends.get(number, 0) - one.read_to) for number, one in places)

    def silent(self) -> list[Last]:
        """Name the writers that have been silent for too long, with the last that they say.

        Those first that were never heard and held the others, who note before they leave themselves.
        """
        if self._idle_ms is None:
            return []
        found = {
            name: one
            for name, one in self._sources.items()
            if self._partitions[one.partition].listened_ms - one.heard_ms >= self._idle_ms
        }
        unheard = {name: one for name, one in found.items() if not one.standing.is_heard}
        return _lasts(unheard or found)

    def unheard(self) -> list[Last]:
        """Name the writers of which nothing was read, and will be when no more is."""
        return _lasts(
            {name: one for name, one in self._sources.items() if not one.standing.is_heard}
        )

    def leave(self, writer: str) -> None:
        """Take in that a writer has left for its silence; its next event makes it new."""
        if self._sources.pop(writer, None) is not None:
            self.counts.silent.add(writer)

    @property
    def has_steps(self) -> bool:
        """Whether something is to be noted that will be passed."""
        return bool(self._steps)

    def step(self) -> None:
        """Take down what to note so far, if the least guess rose by the resolution since.

        For a backlog, so that readers of it see time rise in small steps. While it cannot be sent,
        as much as a call takes is kept.
        """
        self._judge()
        least, before = self._least(), self._stepped
        if least is None or (
            before is not None and least - before < max(1, self.resolution_ms)
        ):
            return
        if len(self._steps) + len(self._sources) <= BULK:
            self._stepped = least
            self._steps += self._all_at(least)

    def overdue(self) -> list[Last]:
        """Name the writers that held the others for too long, with the last that they say."""
        return _lasts(
            {name: one for name, one in self._sources.items() if one.standing.is_overdue}
        )

    def leave_out(self, writer: str) -> None:
        """Take in that a writer has left for holding the others; within the bound it is new."""
        source = self._sources.get(writer)
        if source is not None:
            source.standing.is_out, source.standing.is_overdue = True, False
            source.is_registered, source.noted, source.said = False, None, None

    def _judge(self) -> None:
        """Look at who holds the others."""
        if self._hold_ms is None or self._has_unread:
            return
        standings = [(one.standing, one.partition) for one in self._sources.values()]
        # Of all, since each is compared with the look before.
        rises = [one.goes_on() for one, _ in standings]
        moments = {
            number: one.time.look(self._hold_ms, goes_on=any(rises))
            for number, one in self._partitions.items()
        }
        look([(one, moments[number]) for one, number in standings], self._hold_ms)

    @property
    def _has_unread(self) -> bool:
        return any(one.is_unread for one in self._partitions.values())

    def notes(self, now_ms: int) -> list[Note]:
        """Tell what to note: the steps taken down, or what holds now, and times that are repeated.

        Steps above what holds now are left out: what was read since has shown that they are wrong.

        Parameters
        ----------
        now_ms
            A monotonic clock, for the times that are repeated.
        """
        self._judge()
        taken, self._steps, least = self._steps, [], self._least()
        found: list[Note] = []
        if least is not None:
            # Not both: marks a resolution apart, and then one at the end of what was read, would
            # leave out the next step, which is too near to that.
            found = self._may([one for one in taken if one.time <= least])
            found = found or self._may(self._all_at(least))
        said = {one.writer for one in found}
        beats = [
            Note(name, one.last_time, {one.partition: one.offset})
            for name, one in self._sources.items()
            if one.last_time is not None and name not in said and self._beats(one, now_ms)
        ]
        return found + beats

    def _all_at(self, least: int) -> list[Note]:
        found = []
        for name, source in self._sources.items():
            time: int | None = least
            if source.standing.is_behind:
                own = self._guess_of(source)
                time = None if own is None else min(own, least)
            if time is not None:
                found.append(Note(name, time, {source.partition: source.offset}))
        return found

    def _may(self, notes: list[Note]) -> list[Note]:
        """Leave out what is not above what writers stand at, or below what they may stand at."""
        found = []
        for note in notes:
            source = self._sources.get(note.writer)
            if source is not None and source.may_note(note.time):
                source.said = note.time
                found.append(note)
        return found

    def _beats(self, source: _Source, now_ms: int) -> bool:
        return (
            source.is_registered
            and self.beat_ms is not None
            and now_ms - source.reported_ms >= self.beat_ms
        )

    def accept(self, note: Note, now_ms: int) -> None:
        """Take in that a time was noted."""
        source = self._sources.get(note.writer)
        if source is not None:
            source.noted, source.reported_ms = note.time, now_ms
            self._reach(note.time)

    def _reach(self, time: int | None) -> None:
        if time is not None and (self._reached is None or time > self._reached):
            self._reached = time

    def _least(self) -> int | None:
        """Tell the least guess; None while one of them has none, or nothing is read of a backlog.

        What lies in it may be older than all the rest. Those that are behind are left out.
        """
        if self._has_unread:
            return None
        least: int | None = None
        for source in self._sources.values():
            if source.standing.is_behind:
                continue
            time = self._guess_of(source)
            if time is None:
                return None
            least = time if least is None else min(time, least)
        return least

    def _guess_of(self, source: _Source) -> int | None:
        place = self._partitions[source.partition]
        if not source.standing.is_heard or (self._guess.needs_end and place.ended_ms is None):
            return None
        # The clock as it was when everything stored before was read: it stands in a backlog.
        return source.strategy.time(Now(place.ended_ms or 0, place.listened_ms))


def _lasts(sources: Mapping[str, _Source]) -> list[Last]:
    return [
        Last(name, one.last_time, {one.partition: one.offset})
        for name, one in sources.items()
        if one.is_registered
    ]


def stride(records: int, writers: int) -> int | None:
    """Tell after how many records each to take a step, so that all steps fit into a call.

    None if not even one does.
    """
    steps = BULK // max(1, writers)
    return -(-records // steps) if steps else None


def resume_at(positions: Iterable[Mapping[int, int]], partition: int) -> int | None:
    """Tell from where a partition is read on: the greatest position of its writers; None without.

    All below it was read by the observer that noted it. What others read there and could not note
    any more lies below the start, which every position covers from now on.
    """
    return max((one[partition] for one in positions if partition in one), default=None)
