"""Which promises of a topic an observer notes, and when: pure.

A changefeed says in each partition until when it is complete. Nothing is guessed, so each partition notes
its own time, at the offset behind its own promise. What may not happen is that somebody is ahead of a
partition that does not hold the watermark yet.
"""

from collections.abc import Iterable

from tidegauge.event_time import FIRST_TIME
from tidegauge.topology import Position
from writer_client._notes import BULK, Note, raise_to
from writer_client.observing.observation import Observation, Row
from writer_client.observing.partition import Partition
from writer_client.observing.rules import PROMISED
from writer_client.observing.sources import Odd, Source
from writer_client.strategies import Now, ObservedEvent

_NO_CLOCK = Now(wall_ms=0, running_ms=0)


class PromiseObservation(Observation):
    """What one observer has read of a topic that contains promises, and what follows from it.

    Parameters
    ----------
    checks
        Whether events have a time that is compared with the promises.
    """

    notes_promises = True

    def __init__(self, *, checks: bool) -> None:
        super().__init__(PROMISED, idle_ms=None, hold_ms=None)
        self._checks = checks
        self._promises: dict[int, list[Note]] = {}
        """Of each partition those that are not noted yet; they rise."""
        self._registered: set[int] = set()
        self._unregistered: set[int] = set()
        self._cleared: dict[int, int] = {}
        """What was read before a look that found no partition without a writer."""

    def revoke(self, partition: int) -> None:
        """Speak no more for a partition: another observer does."""
        super().revoke(partition)
        self._promises.pop(partition, None)

    def _take(self, row: Row, place: Partition, latest_ms: int, wall_ms: int) -> None:  # noqa: ARG002 (of guesses)
        counts = self.sources.counts
        source = None if row.writer is None else self.sources.get(row.writer)
        if row.promise is None:
            counts.events += 1
            counts.unreadable += self._checks and row.event_time is None
        else:
            counts.promises += 1
        if source is None:
            return
        promised = _stand(source)
        if row.promise is not None:
            counts.fallen += row.promise < promised
            source.strategy.observe(ObservedEvent(row.promise), _NO_CLOCK)
            self._keep(
                Note(source.writer, row.promise, {row.partition: row.offset + 1}), source
            )
        elif row.event_time is not None and row.event_time < promised:
            counts.late += 1
            counts.first_late = counts.first_late or Odd(
                source.writer, row.event_time, promised
            )

    def _keep(self, note: Note, source: Source) -> None:
        """Keep what is to be noted, in steps as far apart as marks are, and not more than a call takes."""
        kept = self._promises.setdefault(source.partition, [])
        before = kept[-1].time if kept else source.last_time
        if before is not None and note.time <= before:
            return
        is_near = len(kept) > 1 and note.time - kept[-2].time < self.resolution_ms
        # The first is never replaced: it may have waited for its look.
        if is_near or len(kept) >= max(2, BULK // len(self.sources)):
            kept[-1] = note
        else:
            kept.append(note)

    def step(self) -> None:
        """Do nothing: each promise is a step."""

    def register(self, partitions: Iterable[int]) -> None:
        """Record that partitions have a writer, be it this observer's or another's."""
        self._registered.update(partitions)

    def unregistered(self, partitions: Iterable[int]) -> set[int]:
        """Return which of the topic's partitions have no writer yet, and so would not hold a mark."""
        self._unregistered = set(partitions) - self._registered
        return self._unregistered

    def clear(self, read: Position) -> None:
        """Let be noted what was read before a look, if all partitions that it found have a writer.

        The race: a partition is added, and rows are written there before the next promise elsewhere.
        A look that begins after that promise was read finds the partition.
        """
        if not self._unregistered:
            raise_to(self._cleared, read)  # looks may overtake each other

    def notes(self, now_ms: int) -> list[Note]:
        """Return what to note, the oldest first, and times that are repeated.

        Nothing while one partition has had no promise, and is not read to its end as of the start: who
        is ahead of it lets its clocks run.
        """
        found: list[Note] = []
        if all(self._is_ready(one) for one in self.sources.values()):
            cleared = [
                note
                for number, kept in self._promises.items()
                for note in kept
                if note.position[number] <= self._cleared.get(number, 0)
            ]
            found = self._may(sorted(cleared, key=lambda note: note.time))
        return found + self._beats_beside(found, now_ms)

    def _is_ready(self, source: Source) -> bool:
        is_read = self.partitions[source.partition].ended_ms is not None
        return is_read or source.strategy.time(_NO_CLOCK) is not None

    def accept(self, note: Note, now_ms: int) -> None:
        """Record that a time was noted; what is repeated from now on covers no more than that."""
        super().accept(note, now_ms)
        source = self.sources.get(note.writer)
        if source is not None:
            number = source.partition
            source.offset = note.position[number]
            kept = self._promises.get(number, [])
            self._promises[number] = [one for one in kept if one.time > note.time]

    @property
    def holding(self) -> dict[str, int | None]:
        """The partitions that nobody has registered yet, or that have had no promise."""
        silent = {name for name, one in self.sources.items() if _stand(one) == FIRST_TIME}
        return dict.fromkeys(sorted({*map(str, self._unregistered), *silent}))

    def ahead(self, ends: Position) -> set[int]:
        """Return the partitions that are to wait while the lowest ones are read.

        That is decided among those that are not read to their ends: a partition whose promise has not
        been written yet is waited for by the service, not here.
        """
        stands = {one.partition: _stand(one) for one in self.sources.values()}
        read = self.partitions.position
        lowest = min(
            (stand for n, stand in stands.items() if read[n] < ends.get(n, 0)), default=None
        )
        return {n for n, stand in stands.items() if lowest is not None and stand > lowest}


def _stand(source: Source) -> int:
    """Return up to when a partition is known to be complete."""
    known = (source.strategy.time(_NO_CLOCK), source.last_time)
    return max((time for time in known if time is not None), default=FIRST_TIME)
