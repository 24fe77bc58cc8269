"""What was written and noted and is not acknowledged yet. No I/O; usable from any thread.

To write is to append to lists, and no more: events are routed together, in Arrow's columns, when it
is time to send some. They are numbered by one counter over all segments. A note remembers where
the counter stood, so that it covers exactly what any thread wrote before it, wherever batches are
cut and however segments are split and merged meanwhile.
"""

import threading
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.errors import InvalidTimeError
from tidegauge.event_time import END_OF_TIME
from tidegauge.topology import Position, Topology
from tidegauge.wire.routing import split
from writer_client._errors import TransactionOpenError, WriterClosedError
from writer_client._events import OVERHEAD_BYTES, EventBatch, Unrouted, sizes, with_times
from writer_client._lanes import Lane
from writer_client._notes import Notes
from writer_client._noting import Noting
from writer_client.strategies import ObservedEvent

_MAY_BE_OLDER = (
    "what it will make visible may be older than the time; note it with the transaction "
    "(its note_time), or after it"
)
_ONE_AT_A_TIME = "it has at most one; end that first, or use another Writer"


class Wake(Enum):
    """What the sending side must know after a write."""

    LINGER = "something waits now"
    SEND = "enough for a batch"


class Goal(NamedTuple):
    """Everything that was written and noted up to a moment."""

    events: int
    notes: int


class Outbox:
    """Events and notes between those who write and those who send.

    With ``batch_bytes`` not routed nothing lingers, and a batch has as many; with ``limit_bytes``
    not acknowledged, writers wait. The clock gives events without a time one.
    """

    def __init__(  # noqa: PLR0913 (what a writer is made of)
        self,
        writer: str,
        *,
        batch_bytes: int,
        limit_bytes: int,
        clock: Callable[[], int] | None = None,
        noting: Noting | None = None,
        last_time: int | None = None,
    ) -> None:
        self._writer = writer
        self.batch_bytes = batch_bytes
        self._limit = limit_bytes
        self._clock = clock
        self._noting = noting
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._topology = Topology([])
        self._retired: set[int] = set()
        self._lanes: dict[int, Lane] = {}
        self._unrouted = Unrouted()
        self._unrouted_bytes = 0
        self._routed = 0
        self._notes = Notes()
        self._passed: set[int] = set()
        self._written = 0
        self._bytes = 0
        self._stored = 0
        self._stuck = False
        self._closed = False
        self._in_transaction = False
        self.last_time = last_time
        """The newest noted time, ms."""
        self.offsets: dict[int, int] = {}
        """How far the events of this writer are acknowledged."""
        self.failure: BaseException | None = None
        """What stopped the writer."""

    def write(
        self, key: str, event_time: int | None, value: bytes, source: Hashable = None
    ) -> Wake | None:
        """Add an event; tell what senders must know. Raises what has ended the writer.

        The strategy is shown it under the lock, in the order of the ordinals.
        """
        with self._lock:
            if self.failure is not None or self._closed:
                self._refuse_if_over()
            if event_time is None and self._clock is not None:
                event_time = self._now(self._clock)
            notes_at_once = self._noting is not None and self._noting.observe(
                ObservedEvent(event_time, key, value, source), self.last_time
            )
            self._unrouted.add(key, event_time, value)
            wake = self._wake_for(1, len(key) + len(value) + OVERHEAD_BYTES)
            return Wake.SEND if notes_at_once and self._note_by_strategy() else wake

    def write_many(self, events: pa.RecordBatch, source: Hashable = None) -> Wake | None:
        """Add events, as `write` does one after the other."""
        size = pc.sum(sizes(events)).as_py()
        with self._lock:
            self._refuse_if_over()
            now = None if self._clock is None else self._now(self._clock)
            events = with_times(events, now)
            notes_at_once = self._noting is not None and self._noting.observe_many(
                events, source, self.last_time
            )
            self._unrouted.add_many(events)
            wake = self._wake_for(len(events), size)
            return Wake.SEND if notes_at_once and self._note_by_strategy() else wake

    def note(self, time: int) -> None:
        """Note a time, unless it is below the time noted before, or the end of time."""
        with self._lock:
            self._refuse_if_over()
            if self._in_transaction:
                raise TransactionOpenError(self._writer, _MAY_BE_OLDER)
            self._note(time)

    def note_by_strategy(self) -> bool:
        """Note what the strategy says; tell whether there was something to note."""
        with self._lock:
            is_over = self._closed or self.failure is not None
            return not is_over and self._note_by_strategy()

    def enter_transaction(self) -> None:
        """Take no notes until the transaction ends."""
        with self._lock:
            self._refuse_if_over()
            if self._in_transaction:
                raise TransactionOpenError(self._writer, _ONE_AT_A_TIME)
            self._in_transaction = True

    def leave_transaction(self) -> None:
        """Take notes again."""
        self._in_transaction = False

    def take_in(self, position: Position, time: int | None) -> None:
        """Take in that a transaction was committed, with a time perhaps: the next note covers it."""
        with self._lock:
            for segment, offset in position.items():
                self.offsets[segment] = max(offset, self.offsets.get(segment, 0))
            self._notes.take_in(position)
            if time is not None:
                self.last_time = time

    def own_time(self) -> int | None:
        """Tell the time of an event without one; None if it has none."""
        with self._lock:
            return None if self._clock is None else self._now(self._clock)

    def commit_time(self, written: Iterable[ObservedEvent]) -> int | None:
        """Show the strategy what a transaction is about to commit; tell what that may note.

        An event that is written after this is not older, by the strategy's promise.
        """
        with self._lock:
            if self._noting is None:
                return None
            for event in written:
                self._noting.observe(event, self.last_time)
            return self._strategy_time()

    def promise(self, told: int | None) -> int | None:
        """Tell what a beat may say of a writer that was told a time and has no note accepted yet.

        Nothing above what is noted and waits; what will be noted must not be below it.
        """
        with self._lock:
            waiting = self._notes.first
            if told is not None and waiting is not None:
                return min(told, waiting)
            if self.last_time is None:
                self.last_time = told
            return told

    def route(self) -> list[int]:
        """Let what was written wait for the segments that own its keys; list where anything waits."""
        with self._lock:
            events = self._unrouted.take(first=self._routed)
            self._routed, self._unrouted_bytes = self._written, 0
            for segment, part in self._split(events):
                self._lane(segment).add(part)
            return self._waiting()

    def take(self, segment: int, *, max_events: int) -> EventBatch | None:
        """Take the next events of a segment to send.

        The race: a merged segment must not get an event before an older one of the same key,
        which is still on its way to a segment that it continues. So nothing is taken until
        every sealed segment has answered.
        """
        with self._lock:
            lane = self._lane(segment)
            if self._stuck or any(len(self._lanes[one].in_flight) for one in self._retired):
                return None
            return lane.take(max_events=max_events, max_bytes=self.batch_bytes)

    def acknowledge(self, batch: EventBatch, next_offset: int) -> list[int]:
        """Take in that a batch is stored and ends at an offset; list the segments that may go on."""
        with self._lock:
            # What a transaction appended behind it may have been answered before.
            self.offsets[batch.segment] = max(next_offset, self.offsets.get(batch.segment, 0))
            self._lanes[batch.segment].settle()
            self._bytes -= batch.size
            self._stored += len(batch.events)
            self._notes.settle(batch.segment, batch.events.column("ordinal"), next_offset)
            self._room.notify_all()
            return self._waiting() if batch.segment in self._retired else []

    def reroute(self, batch: EventBatch, topology: Topology) -> list[int]:
        """Take in that a batch was refused because its segment is sealed.

        It and all that waits for sealed segments goes to the segments that continue them. Lists
        those where anything waits.
        """
        with self._lock:
            self._lanes[batch.segment].put_back()
            self._follow(topology)
            return self._waiting()

    def follow(self, topology: Topology) -> None:
        """Route over a topology, unless a newer one is known."""
        with self._lock:
            self._follow(topology)

    def send_notes(self, limit: int) -> list[tuple[int, Position]]:
        """Put the notes whose events are all stored on their way, in order."""
        with self._lock:
            sent = self._notes.send(stored_below=self._stored_below(), limit=limit)
            return [(time, self._without_passed(position)) for time, position in sent]

    def accept_notes(self) -> None:
        """Take in that the notes on their way were accepted."""
        with self._lock:
            self._notes.accept()

    @property
    def topology(self) -> Topology:
        """What events are routed over."""
        return self._topology

    @property
    def is_idle(self) -> bool:
        """Whether the strategy says that nobody should wait for the writer."""
        with self._lock:
            if self._noting is None or self._in_transaction:  # which it is not shown yet
                return False
            return self._noting.is_idle

    @property
    def is_full(self) -> bool:
        """Whether writers should wait."""
        return self._bytes >= self._limit and self.failure is None and not self._closed

    @property
    def unstored(self) -> int:
        """How many events are written and not acknowledged."""
        return self._written - self._stored

    @property
    def unaccepted(self) -> int:
        """How many notes are not accepted."""
        return len(self._notes)

    @property
    def goal(self) -> Goal:
        """Everything up to now."""
        with self._lock:
            return Goal(self._written, self._notes.made)

    def is_settled(self, goal: Goal) -> bool:
        """Tell whether everything up to a goal is stored, or never will be.

        A note that is refused stops the notes, not the events written before.
        """
        with self._lock:
            if self._stuck:
                return True
            if self._stored_below() < goal.events:
                return False
            return self.failure is not None or self._notes.accepted >= goal.notes

    def wait_for_room(self) -> None:
        """Block the calling thread until there is room or the writer is over."""
        with self._room, self.blocked():
            self._room.wait_for(lambda: not self.is_full)

    def blocked(self) -> AbstractContextManager[None]:
        """Let the clock of the strategy's idleness stand while a writer waits for room."""
        return nullcontext() if self._noting is None else self._noting.running.stopped()

    def close(self) -> None:
        """Refuse what comes from now on."""
        with self._room:
            self._closed = True
            self._room.notify_all()

    def fail(self, error: BaseException, *, stuck: bool) -> None:
        """Stop: every later call raises this. Stuck, what is written already is not stored either."""
        with self._room:
            self._stuck = self._stuck or stuck
            if self.failure is None:
                self.failure = error
            self._room.notify_all()

    def raise_failure(self) -> None:
        """Raise what stopped the writer, if anything did."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)

    def _refuse_if_over(self) -> None:
        self.raise_failure()
        if self._closed:
            raise WriterClosedError(self._writer)

    def _now(self, clock: Callable[[], int]) -> int:
        """Read the clock, which must not fall behind what was noted."""
        now = clock()
        return now if self.last_time is None else max(now, self.last_time)

    def _note_by_strategy(self) -> bool:
        time = None if self._in_transaction else self._strategy_time()
        if time is not None:
            self._note(time)
        return time is not None

    def _strategy_time(self) -> int | None:
        return None if self._noting is None else self._noting.time(self.last_time)

    def _note(self, time: int) -> None:
        if time >= END_OF_TIME or (self.last_time is not None and time < self.last_time):
            raise InvalidTimeError(self._writer, time, self.last_time)
        self.last_time = time
        self._notes.add(time, self._written)

    def _lane(self, segment: int) -> Lane:
        lane = self._lanes.get(segment)
        if lane is None:
            lane = self._lanes[segment] = Lane(segment)
        return lane

    def _wake_for(self, count: int, size: int) -> Wake | None:
        """Count what was added; wake senders when there is something, and when there is enough."""
        self._written += count
        self._bytes += size
        before, self._unrouted_bytes = self._unrouted_bytes, self._unrouted_bytes + size
        if before < self.batch_bytes <= self._unrouted_bytes:
            return Wake.SEND
        return None if before else Wake.LINGER

    def _waiting(self) -> list[int]:
        return [one.segment for one in self._lanes.values() if len(one.waiting)]

    def _split(self, events: pa.Table) -> Iterator[tuple[int, pa.RecordBatch]]:
        for batch in events.combine_chunks().to_batches():
            yield from split(self._topology, batch)

    def _stored_below(self) -> int:
        """Below which ordinal everything is stored."""
        oldest = (lane.oldest for lane in self._lanes.values())
        return min((one for one in oldest if one is not None), default=self._routed)

    def _follow(self, topology: Topology) -> None:
        if topology.revision >= self._topology.revision:
            self._topology = topology
        growing = set(self._topology.unsealed)
        self._retired = self._lanes.keys() - growing
        moved = [self._lanes[segment].empty() for segment in self._retired]
        if moved:
            for segment, events in self._split(pa.concat_tables(moved)):
                self._lane(segment).merge(events)

    def _without_passed(self, position: Position) -> Position:
        """Leave out segments that a report before has passed: it named one that continues them.

        The service refuses a position that seems to go back, and all of them is covered.
        """
        named = {one: offset for one, offset in position.items() if one not in self._passed}
        if self._topology.has_history:
            before = self._topology.ancestors
            self._passed.update(before.listed(before.of(named)))
        return named
