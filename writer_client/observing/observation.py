"""Which time an observer notes for its writers, and at which position: pure, the clocks handed in.

Each writer notes the *least* guess of all writers of this observer, at its own newest position. A
writer that has no guess yet holds them all; one that was silent for so long leaves. One that is far
behind the others notes its own guess, and leaves if that lasts. What is noted covers only what was
read before the guess.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from writer_client._notes import BULK, Note
from writer_client.observing.holding import Comparison, Moment, look
from writer_client.observing.partition import Partition, Partitions
from writer_client.observing.rules import Guess
from writer_client.observing.sources import Odd, Source, Sources
from writer_client.strategies import Now, ObservedEvent


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
    promise
        In ms, where it is a promise and no event.
    """

    writer: str | None
    partition: int
    offset: int
    event_time: int | None
    logged_ms: int | None
    promise: int | None = None


class Observation:
    """What one observer has read, and what follows from it.

    Parameters
    ----------
    guess
        How time is guessed.
    idle_ms
        A writer that is silent for so long leaves; None: never.
    hold_ms
        So does one that is farther behind the next one for so long; None: never.

    Attributes
    ----------
    partitions, sources
        What it reads, and for which writers it speaks.
    beat_ms
        How often a time is repeated, as the service wants it.
    resolution_ms
        Marks nearer to each other in event time than this are left out by the service.
    notes_promises
        Whether times are promises that stand in the topic, and no guesses.
    """

    notes_promises = False

    def __init__(self, guess: Guess, *, idle_ms: int | None, hold_ms: int | None) -> None:
        self._guess = guess
        # A guess by the clock is nobody's events.
        self._hold_ms = None if guess.needs_end else hold_ms
        # As the service counts silence: a gap in which nobody was heard is no proof of it.
        self.partitions = Partitions(0 if idle_ms is None else -(-idle_ms // 2))
        self.sources = Sources(self.partitions, guess, idle_ms=idle_ms)
        self._reached: int | None = None
        """The greatest time that one of them has, or had."""
        self._steps: list[Note] = []
        self._stepped: int | None = None
        """The least guess at the latest step."""
        self._kept: list[int] = []
        """The least guesses at the steps that are kept."""
        self.beat_ms: int | None = None
        self.resolution_ms = 0

    def revoke(self, partition: int) -> None:
        """Speak no more for the writers of a partition: another observer does."""
        self.partitions.pop(partition, None)
        self._steps = [one for one in self._steps if partition not in one.position]
        self.sources.revoke(partition)

    def admit(self, writer: str, registered: int | None, now_ms: int) -> None:
        """Record that a writer is registered, and with which time."""
        source = self.sources.get(writer)
        if source is not None:
            source.is_registered, source.registered, source.reported_ms = (
                True,
                registered,
                now_ms,
            )
            self._reach(registered)

    def read(self, row: Row, *, latest_ms: int, wall_ms: int) -> None:
        """Record what was read; records of partitions that are revoked are left out.

        Parameters
        ----------
        row
            The record.
        latest_ms
            An event time above this is too far in the future to be believed.
        wall_ms
            The clock.
        """
        place = self.partitions.get(row.partition)
        if place is None or row.offset < place.read_to:
            return
        self._take(row, place, latest_ms, wall_ms)
        self.partitions.read_to(row.partition, row.offset + 1)

    def _take(self, row: Row, place: Partition, latest_ms: int, wall_ms: int) -> None:
        self.sources.counts.events += 1
        self.sources.counts.unreadable += row.event_time is None
        # A clock that is ahead does not show when its record was stored.
        if row.logged_ms is not None and row.logged_ms <= wall_ms:
            self.partitions.pass_to(row.partition, row.logged_ms)
        if row.writer is not None:
            source = self.sources.heard(row.writer, row.partition)
            if source is not None:
                self._hear(source, row, place, latest_ms)

    def _hear(self, source: Source, row: Row, place: Partition, latest_ms: int) -> None:
        time, comparison = row.event_time, source.comparison
        if time is not None:
            self._compare(source, time)
        now = Now(wall_ms=0, running_ms=place.listened_ms, latest_ms=latest_ms)
        source.strategy.observe(ObservedEvent(time), now)
        if time is not None and time > latest_ms:
            counts = self.sources.counts
            counts.first_future = counts.first_future or Odd(source.writer, time, latest_ms)
            time = None
        comparison.hear(time, place.time.clock_ms)
        source.heard_ms = self.partitions.heard_ms(row.partition, row.offset)
        source.offset = row.offset + 1

    def _compare(self, source: Source, time: int) -> None:
        """Count a record as late if it is below what was noted; a kept step counts once it is noted."""
        # Who holds the others has a time of its own.
        reached = self._reached if source.accepted is None else source.accepted
        if reached is not None and time < reached:
            self.sources.count_late(source.writer, time, reached)
        else:
            source.compare(time, source.kept or self._kept)

    @property
    def holding(self) -> dict[str, int | None]:
        """Who holds the others, and how far behind these; None if that is not known."""
        return self.sources.holding

    @property
    def has_steps(self) -> bool:
        """Whether something is to be noted that will be passed."""
        return bool(self._steps)

    def step(self) -> None:
        """Keep what to note so far, if the least guess rose by the resolution since.

        For a backlog, so that readers of it see time rise in small steps. While it cannot be sent,
        as much as a call takes is kept.
        """
        self._judge()
        least, before = self._least(), self._stepped
        if least is None or (
            before is not None and least - before < max(1, self.resolution_ms)
        ):
            return
        if len(self._steps) + len(self.sources) <= BULK:
            self._stepped = least
            self._kept.append(least)
            for note in self._all_at(least):
                self._steps.append(note)
                self.sources[note.writer].kept.append(note.time)

    def _judge(self) -> None:
        """Find out who holds the others.

        A partition of a backlog that is read after the others seems to be far behind them. So its sources
        are compared with each other, and with all others only once it was read to an end.
        """
        if self._hold_ms is None or self.partitions.has_unread:
            return
        # Of all, since each is compared with the look before.
        rises = [one.comparison.goes_on() for one in self.sources.values()]
        moments = self.partitions.moments(self._hold_ms, goes_on=any(rises))
        compared: dict[int | None, list[tuple[Comparison, Moment | None]]] = {}
        for source in self.sources.values():
            number = source.partition
            group = number if self.partitions[number].ended_ms is None else None
            compared.setdefault(group, []).append((source.comparison, moments[number]))
        for comparisons in compared.values():
            look(comparisons, self._hold_ms)

    def notes(self, now_ms: int) -> list[Note]:
        """Return what to note: the steps that were kept, or what holds now, and times that are repeated.

        Steps above what holds now are left out: what was read since has shown that they are wrong.

        Parameters
        ----------
        now_ms
            A monotonic clock, for the times that are repeated.
        """
        self._judge()
        taken, self._steps, self._kept, least = self._steps, [], [], self._least()
        for source in self.sources.values():
            for time, step in source.settle(least):
                self.sources.count_late(source.writer, time, step)
        found: list[Note] = []
        if least is not None:
            # Not both: marks a resolution apart, and then one at the end of what was read, would
            # leave out the next step, which is too near to that.
            found = self._may([one for one in taken if one.time <= least])
            found = found or self._may(self._all_at(least))
        return found + self._beats_beside(found, now_ms)

    def _beats_beside(self, found: list[Note], now_ms: int) -> list[Note]:
        said = {one.writer for one in found}
        return [
            Note(name, one.last_time, {one.partition: one.offset})
            for name, one in self.sources.items()
            if one.last_time is not None and name not in said and self._beats(one, now_ms)
        ]

    def _all_at(self, least: int) -> list[Note]:
        found = []
        for name, source in self.sources.items():
            time: int | None = least
            if source.comparison.is_behind:
                own = self._guess_of(source)
                time = None if own is None else min(own, least)
            if time is not None:
                found.append(Note(name, time, {source.partition: source.offset}))
        return found

    def _may(self, notes: list[Note]) -> list[Note]:
        """Leave out what is not above what writers have noted, or below what they may have."""
        found = []
        for note in notes:
            source = self.sources.get(note.writer)
            if source is not None and source.may_note(note.time):
                source.sent = note.time
                found.append(note)
        return found

    def _beats(self, source: Source, now_ms: int) -> bool:
        return (
            source.is_registered
            and self.beat_ms is not None
            and now_ms - source.reported_ms >= self.beat_ms
        )

    def accept(self, note: Note, now_ms: int) -> None:
        """Record that a time was noted."""
        source = self.sources.get(note.writer)
        if source is not None:
            source.accepted, source.reported_ms = note.time, now_ms
            self._reach(note.time)

    def _reach(self, time: int | None) -> None:
        if time is not None and (self._reached is None or time > self._reached):
            self._reached = time

    def _least(self) -> int | None:
        """Return the least guess; None while one of them has none, or nothing is read of a backlog.

        What lies in it may be older than all the rest. Those that are behind are left out.
        """
        if self.partitions.has_unread:
            return None
        least: int | None = None
        for source in self.sources.values():
            if source.comparison.is_behind:
                continue
            time = self._guess_of(source)
            if time is None:
                return None
            least = time if least is None else min(time, least)
        return least

    def _guess_of(self, source: Source) -> int | None:
        place = self.partitions[source.partition]
        if not source.comparison.is_heard or (self._guess.needs_end and place.ended_ms is None):
            return None
        # The clock as it was when everything stored before was read: it stops in a backlog.
        return source.strategy.time(Now(place.ended_ms or 0, place.listened_ms))


def stride(records: int, writers: int) -> int | None:
    """Return after how many records each to take a step, so that all steps fit into a call.

    None if not even one does.
    """
    steps = BULK // max(1, writers)
    return -(-records // steps) if steps else None


def resume_at(positions: Iterable[Mapping[int, int]], partition: int) -> int | None:
    """Return from where a partition is read on: the greatest position of its writers; None without.

    All below it was read by the observer that noted it. What others read there and could not note
    any more lies below the start, which every position covers from now on.
    """
    return max((one[partition] for one in positions if partition in one), default=None)
