"""The events of one segment that are not acknowledged."""

from bisect import bisect_right

import pyarrow as pa
import pyarrow.compute as pc

from writer_client._events import NUMBERED_SCHEMA, EventBatch

_MOST_CHUNKS = 64
_NONE = NUMBERED_SCHEMA.empty_table()


class Lane:
    """What waits to be sent to one segment, and what is on its way, in order of ordinals."""

    def __init__(self, segment: int) -> None:
        self.segment = segment
        self.waiting = _NONE
        self.in_flight = _NONE

    @property
    def oldest(self) -> int | None:
        """The least ordinal that is not acknowledged."""
        ordinals = (self.in_flight if len(self.in_flight) else self.waiting).column("ordinal")
        oldest: int | None = ordinals[0].as_py() if len(ordinals) else None
        return oldest

    def add(self, events: pa.RecordBatch) -> None:
        """Let events wait behind the others."""
        added = pa.Table.from_batches([events])
        waiting = pa.concat_tables([self.waiting, added]) if len(self.waiting) else added
        # Else a trickle during an outage would become a chunk for each event, listed every time.
        is_scattered = waiting.column("key").num_chunks > _MOST_CHUNKS
        self.waiting = waiting.combine_chunks() if is_scattered else waiting

    def take(self, *, max_events: int, max_bytes: int) -> EventBatch | None:
        """Put the next events on their way, if any wait: one is sent however large it is."""
        if not len(self.waiting):
            return None
        upto = pc.cumulative_sum(self.waiting.column("size").slice(0, max_events))
        count = max(1, bisect_right(upto, max_bytes, key=lambda one: one.as_py()))
        self.in_flight = self.waiting.slice(0, count).combine_chunks()
        self.waiting = self.waiting.slice(count)
        return EventBatch(self.segment, self.in_flight.to_batches()[0])

    def settle(self) -> None:
        """Take in that what was on its way is stored."""
        self.in_flight = _NONE

    def put_back(self) -> None:
        """Let what was on its way wait again, before the others."""
        self.waiting = pa.concat_tables([self.in_flight, self.waiting])
        self.in_flight = _NONE

    def empty(self) -> pa.Table:
        """Hand over what waits."""
        events, self.waiting = self.waiting, _NONE
        return events

    def merge(self, events: pa.RecordBatch) -> None:
        """Let more events wait, each at its place."""
        self.add(events)
        self.waiting = self.waiting.sort_by("ordinal")
