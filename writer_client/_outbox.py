"""What was written and noted and is not acknowledged yet. No I/O; usable from any thread.

Each event has an ordinal in its segment: how many this writer wrote to it before. A note
remembers the ordinals at its moment, so that its position covers exactly what was written
before it, although batches are cut elsewhere.
"""

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegauge.topology import Position

_OVERHEAD_BYTES = 64


class Event(NamedTuple):
    """One event, routed."""

    key: str
    event_time: int | None
    value: bytes

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return len(self.key) + len(self.value) + _OVERHEAD_BYTES


class EventBatch(NamedTuple):
    """Events of one segment on their way, in order."""

    segment: int
    first_ordinal: int
    events: list[Event]

    @property
    def end_ordinal(self) -> int:
        """One past the ordinal of the last event."""
        return self.first_ordinal + len(self.events)


@dataclass(slots=True)
class Note:
    """A time noted, and what was written before it."""

    time: int
    missing: dict[int, int]
    """Segments whose part is not acknowledged yet, with the ordinal to reach."""
    position: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Lane:
    """One segment's events."""

    waiting: deque[Event] = field(default_factory=deque)
    waiting_bytes: int = 0
    written: int = 0
    """Ordinal of the next event."""
    taken: int = 0
    """Ordinal of the next event to be sent."""
    acknowledged: int = 0
    """Ordinal of the next event to be acknowledged."""
    noted: int = 0
    """Ordinal that the newest note covers."""


class Outbox:
    """Events and notes between those who write and the one who sends.

    Parameters
    ----------
    limit_bytes
        Beyond so much unacknowledged, `is_full` asks writers to wait.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._lanes: dict[int, _Lane] = {}
        self._notes: deque[Note] = deque()
        self._bytes = 0
        self._events = 0
        self.last_time: int | None = None
        """The newest noted time, ms."""
        self.offsets: dict[int, int] = {}
        """How far the events of this writer are acknowledged."""
        self.failure: BaseException | None = None

    def write(
        self, segment: int, event: Event, stamp: Callable[[int | None], int] | None = None
    ) -> bool:
        """Add an event; tell whether it is the first one of its segment to be sent.

        Parameters
        ----------
        segment
            Where it goes.
        event
            What to write.
        stamp
            Makes an event time from the newest noted one, in the same step.
        """
        with self._lock:
            self._raise_failure()
            if stamp is not None and event.event_time is None:
                event = event._replace(event_time=stamp(self.last_time))
            lane = self._lanes.setdefault(segment, _Lane())
            lane.waiting.append(event)
            lane.written += 1
            lane.waiting_bytes += event.size
            self._bytes += event.size
            self._events += 1
            return len(lane.waiting) == 1

    def note(self, time: int) -> list[int]:
        """Note a time; return the segments that must be sent before it."""
        with self._lock:
            self._raise_failure()
            missing = {
                segment: lane.written
                for segment, lane in self._lanes.items()
                if lane.written > lane.noted
            }
            note = Note(time, missing)
            for segment, ordinal in missing.items():
                self._lanes[segment].noted = ordinal
            self.last_time = time
            self._settle_from_past(note)
            self._notes.append(note)
            return list(note.missing)

    def take(self, segment: int, *, max_events: int, max_bytes: int) -> EventBatch:
        """Take the next events of a segment to send."""
        with self._lock:
            lane = self._lanes.setdefault(segment, _Lane())
            events: list[Event] = []
            size = 0
            while lane.waiting and len(events) < max_events and size < max_bytes:
                events.append(lane.waiting.popleft())
                size += events[-1].size
            lane.waiting_bytes -= size
            batch = EventBatch(segment, lane.taken, events)
            lane.taken += len(events)
            return batch

    def acknowledge(self, batch: EventBatch, next_offset: int) -> None:
        """Note that a batch is stored and ends at an offset."""
        with self._lock:
            self.offsets[batch.segment] = next_offset
            self._lanes[batch.segment].acknowledged = batch.end_ordinal
            self._bytes -= sum(event.size for event in batch.events)
            self._events -= len(batch.events)
            for note in self._notes:
                ordinal = note.missing.get(batch.segment)
                if ordinal is not None and ordinal <= batch.end_ordinal:
                    note.position[batch.segment] = next_offset - (batch.end_ordinal - ordinal)
                    del note.missing[batch.segment]
            self._room.notify_all()

    def ready_notes(self, limit: int) -> list[tuple[int, Position]]:
        """Look at the notes whose events are all stored, in order."""
        with self._lock:
            ready: list[tuple[int, Position]] = []
            for note in self._notes:
                if note.missing or len(ready) == limit:
                    break
                ready.append((note.time, dict(note.position)))
            return ready

    def drop_notes(self, count: int) -> None:
        """Forget notes that were accepted."""
        with self._lock:
            for _ in range(count):
                self._notes.popleft()
            self._room.notify_all()

    def waiting_bytes(self, segment: int) -> int:
        """How much of a segment waits to be sent."""
        with self._lock:
            lane = self._lanes.get(segment)
            return 0 if lane is None else lane.waiting_bytes

    @property
    def is_full(self) -> bool:
        """Whether writers should wait."""
        return self._bytes >= self._limit and self.failure is None

    @property
    def is_empty(self) -> bool:
        """Whether everything written and noted is stored."""
        return not self._events and not self._notes

    @property
    def unacknowledged(self) -> int:
        """How many events are not stored."""
        return self._events

    def wait_for_room(self) -> None:
        """Block the calling thread until there is room, or the writer failed."""
        with self._room:
            self._room.wait_for(lambda: not self.is_full)
            self._raise_failure()

    def fail(self, error: BaseException) -> None:
        """Stop: every later call raises this."""
        with self._room:
            if self.failure is None:
                self.failure = error
            self._room.notify_all()

    def raise_failure(self) -> None:
        """Raise what stopped the writer, if anything did."""
        with self._lock:
            self._raise_failure()

    def _raise_failure(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _settle_from_past(self, note: Note) -> None:
        """Fill in what a note covers if the batch that holds it is acknowledged already."""
        for segment, ordinal in list(note.missing.items()):
            lane = self._lanes[segment]
            if ordinal == lane.acknowledged:
                note.position[segment] = self.offsets[segment]
                del note.missing[segment]
