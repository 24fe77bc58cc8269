"""The events of one segment that are not acknowledged."""

from collections import deque
from collections.abc import Iterable

from writer_client._events import Event, EventBatch


class Lane:
    """What waits to be sent to one segment, and what is on its way, in order of ordinals."""

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.waiting: deque[Event] = deque()
        self.waiting_bytes = 0
        self.in_flight: list[Event] = []

    @property
    def oldest(self) -> int | None:
        """The least ordinal that is not acknowledged."""
        if self.in_flight:
            return self.in_flight[0].ordinal
        return self.waiting[0].ordinal if self.waiting else None

    def add(self, event: Event, size: int) -> None:
        """Let an event wait behind the others."""
        self.waiting.append(event)
        self.waiting_bytes += size

    def take(self, *, max_events: int, max_bytes: int) -> EventBatch:
        """Put the next events on their way."""
        if len(self.waiting) <= max_events and self.waiting_bytes <= max_bytes:
            events, size = list(self.waiting), self.waiting_bytes
            self.waiting.clear()
        else:
            events, size = [], 0
            while self.waiting and len(events) < max_events and size < max_bytes:
                events.append(self.waiting.popleft())
                size += events[-1].size
        self.waiting_bytes -= size
        self.in_flight = events
        return EventBatch(self.segment, events, size)

    def put_back(self) -> None:
        """Let what was on its way wait again, before the others."""
        self.merge(self.in_flight)
        self.in_flight = []

    def empty(self) -> list[Event]:
        """Hand over what waits."""
        events = list(self.waiting)
        self.waiting.clear()
        self.waiting_bytes = 0
        return events

    def merge(self, events: Iterable[Event]) -> None:
        """Let more events wait, each at its place."""
        self.waiting = deque(sorted([*self.waiting, *events]))
        self.waiting_bytes = sum(event.size for event in self.waiting)
