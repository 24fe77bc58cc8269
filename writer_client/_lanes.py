"""Events that are not acknowledged, by segment. No I/O, no lock."""

from bisect import bisect_right
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.topology import Position, Topology
from tidegauge.wire.routing import split
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
        """Record that what was on its way is stored."""
        self.in_flight = _NONE

    def put_back(self) -> None:
        """Let what was on its way wait again, before the others."""
        self.waiting = pa.concat_tables([self.in_flight, self.waiting])
        self.in_flight = _NONE

    def empty(self) -> pa.Table:
        """Return what waits, and keep nothing of it."""
        events, self.waiting = self.waiting, _NONE
        return events

    def merge(self, events: pa.RecordBatch) -> None:
        """Let more events wait, each at its place."""
        self.add(events)
        self.waiting = self.waiting.sort_by("ordinal")


class Lanes:
    """The lanes of all segments of a stream, which are split and merged meanwhile."""

    def __init__(self) -> None:
        self.topology = Topology([])
        """What events are routed over."""
        self._retired: set[int] = set()
        self._lanes: dict[int, Lane] = {}
        self._passed: set[int] = set()

    def __getitem__(self, segment: int) -> Lane:
        lane = self._lanes.get(segment)
        if lane is None:
            lane = self._lanes[segment] = Lane(segment)
        return lane

    @property
    def waiting(self) -> list[int]:
        """The segments for which anything waits."""
        return [one.segment for one in self._lanes.values() if len(one.waiting)]

    def oldest(self, otherwise: int) -> int:
        """Return the least ordinal that is not acknowledged: everything below it is stored."""
        oldest = (lane.oldest for lane in self._lanes.values())
        return min((one for one in oldest if one is not None), default=otherwise)

    def add(self, events: pa.Table) -> None:
        """Let events wait for the segments that own their keys."""
        for segment, part in self._split(events):
            self[segment].add(part)

    def take(self, segment: int, *, max_events: int, max_bytes: int) -> EventBatch | None:
        """Take the next events of a segment to send.

        The race: a merged segment must not get an event before an older one of the same key,
        which is still on its way to a segment that it continues. So nothing is taken until
        every sealed segment has answered.
        """
        if any(len(self._lanes[one].in_flight) for one in self._retired):
            return None
        return self[segment].take(max_events=max_events, max_bytes=max_bytes)

    def settle(self, segment: int) -> list[int]:
        """Record that what was on its way to a segment is stored; list the segments that may go on."""
        self._lanes[segment].settle()
        return self.waiting if segment in self._retired else []

    def follow(self, topology: Topology) -> None:
        """Route over a topology, unless a newer one is known; what waits for sealed segments, too."""
        if topology.revision >= self.topology.revision:
            self.topology = topology
        self._retired = self._lanes.keys() - set(self.topology.unsealed)
        moved = [self._lanes[segment].empty() for segment in self._retired]
        if moved:
            for segment, events in self._split(pa.concat_tables(moved)):
                self[segment].merge(events)

    def without_passed(self, position: Position) -> Position:
        """Leave out segments that a report before has passed: it named one that continues them.

        The service refuses a position that seems to go back, and all of them is covered.
        """
        named = {one: offset for one, offset in position.items() if one not in self._passed}
        if self.topology.has_history:
            before = self.topology.ancestors
            self._passed.update(before.listed(before.of(named)))
        return named

    def _split(self, events: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in events.combine_chunks().to_batches():
            yield from split(self.topology, batch)
