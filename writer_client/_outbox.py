"""What was written and noted and is not acknowledged yet. No I/O; usable from any thread.

To write is to append to lists, and no more: events are routed together, in Arrow's columns, when it
is time to send some. They are numbered by one counter over all segments. A note remembers where
the counter was, so that it covers exactly what any thread wrote before it, wherever batches are
cut and however segments are split and merged meanwhile.
"""

import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tidegauge.topology import Position, Topology
from writer_client._clocked import observed
from writer_client._errors import TransactionOpenError
from writer_client._events import OVERHEAD_BYTES, EventBatch, Unrouted, sizes, with_times
from writer_client._lanes import Lanes
from writer_client._noter import Noter
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

    def __init__(
        self,
        noter: Noter,
        *,
        batch_bytes: int,
        limit_bytes: int,
        clock: Callable[[], int] | None = None,
    ) -> None:
        self.noter = noter
        self.batch_bytes = batch_bytes
        self._limit = limit_bytes
        self._clock = clock
        self._lock = noter.lock
        self._room = threading.Condition(self._lock)
        self._lanes = Lanes()
        self._unrouted = Unrouted()
        self._unrouted_bytes = 0
        self._routed = 0
        self._written = 0
        self._bytes = 0
        self._stored = 0
        self._stuck = False

    def write(
        self, key: str, event_time: int | None, value: bytes, source: Hashable = None
    ) -> Wake | None:
        """Add an event; return what senders must know. Raises what has ended the writer.

        The strategy is shown it under the lock, in the order of the ordinals.
        """
        noter = self.noter
        with self._lock:
            if noter.failure is not None or noter.is_closed:
                noter.refuse_if_over()
            if event_time is None and self._clock is not None:
                event_time = self.own_time()
            at_once, last = False, noter.notes.last_time
            if noter.strategy is not None:
                at_once = noter.observe(ObservedEvent(event_time, key, value, source))
            # As `observe` compares: a call would cost a tenth of this one.
            elif event_time is not None and last is not None and event_time < last:
                noter.count_late(1, event_time)
            self._unrouted.add(key, event_time, value)
            wake = self._wake_for(1, len(key) + len(value) + OVERHEAD_BYTES)
            return Wake.SEND if at_once and self.note_by_strategy() else wake

    def write_many(self, events: pa.RecordBatch, source: Hashable = None) -> Wake | None:
        """Add events, as `write` does one after the other."""
        size = pc.sum(sizes(events)).as_py()
        noter = self.noter
        with self._lock:
            noter.refuse_if_over()
            events = with_times(events, self.own_time())
            if noter.strategy is None:
                self._compare(events.column("event_time"))
            at_once = noter.strategy is not None and noter.observe_many(
                observed(events, source)
            )
            self._unrouted.add_many(events)
            wake = self._wake_for(len(events), size)
            return Wake.SEND if at_once and self.note_by_strategy() else wake

    def _compare(self, times: pa.Array) -> None:
        """Count events that are below what was noted before them."""
        last = self.noter.notes.last_time
        least = None if last is None else pc.min(times).as_py()
        if least is not None and least < last:
            self.noter.count_late(pc.sum(pc.less(times, last)).as_py(), least)

    def note(self, time: int) -> None:
        """Note a time, unless it is below the time noted before, or the end of time."""
        with self._lock:
            self.noter.refuse_if_over()
            if self.noter.in_transaction:
                raise TransactionOpenError(self.noter.writer, _MAY_BE_OLDER)
            self.noter.check(time)
            self.noter.notes.add(time, self._written)

    def note_by_strategy(self) -> bool:
        """Note what the strategy says; return whether there was something to note."""
        with self._lock:
            time = self.noter.time_to_note()
            if time is not None:
                self.note(time)
            return time is not None

    def enter_transaction(self) -> None:
        """Take no notes until the transaction ends."""
        with self._lock:
            self.noter.refuse_if_over()
            if self.noter.in_transaction:
                raise TransactionOpenError(self.noter.writer, _ONE_AT_A_TIME)
            self.noter.in_transaction = True

    def leave_transaction(self) -> None:
        """Take notes again."""
        self.noter.in_transaction = False

    def own_time(self) -> int | None:
        """Return the time of an event without one, not below what was noted; None if it has none."""
        if self._clock is None:
            return None
        with self._lock:
            now, last = self._clock(), self.noter.notes.last_time
            return now if last is None else max(now, last)

    def commit_time(self, written: Iterable[ObservedEvent]) -> int | None:
        """Show the strategy what a transaction is about to commit; return what that may note.

        An event that is written after this is not older, by the strategy's promise.
        """
        with self._lock:
            if self.noter.strategy is None:
                return None
            self.noter.observe_many(written)
            return self.noter.strategy_time()

    def commit(self, position: Position, time: int | None) -> None:
        """Record that a transaction was committed, with a time perhaps: the next note covers it."""
        with self._lock:
            self.noter.notes.accept_beside(time, position)

    def route(self) -> list[int]:
        """Let what was written wait for the segments that own its keys; list where anything waits."""
        with self._lock:
            events = self._unrouted.take(first=self._routed)
            self._routed, self._unrouted_bytes = self._written, 0
            self._lanes.add(events)
            return self._lanes.waiting

    def take(self, segment: int, *, max_events: int) -> EventBatch | None:
        """Take the next events of a segment to send."""
        with self._lock:
            if self._stuck:
                return None
            return self._lanes.take(segment, max_events=max_events, max_bytes=self.batch_bytes)

    def acknowledge(self, batch: EventBatch, next_offset: int) -> list[int]:
        """Record that a batch is stored and ends at an offset; list the segments that may go on."""
        with self._lock:
            self._bytes -= batch.size
            self._stored += len(batch.events)
            ordinals = batch.events.column("ordinal")
            self.noter.notes.settle(batch.segment, ordinals, next_offset)
            self._room.notify_all()
            return self._lanes.settle(batch.segment)

    def reroute(self, batch: EventBatch, topology: Topology) -> list[int]:
        """Record that a batch was refused because its segment is sealed.

        It and all that waits for sealed segments goes to the segments that continue them. Lists
        those where anything waits.
        """
        with self._lock:
            self._lanes[batch.segment].put_back()
            self._lanes.follow(topology)
            return self._lanes.waiting

    def follow(self, topology: Topology) -> None:
        """Route over a topology, unless a newer one is known."""
        with self._lock:
            self._lanes.follow(topology)

    def send_notes(self, limit: int) -> list[tuple[int, Position]]:
        """Put the notes whose events are all stored on their way, in order."""
        with self._lock:
            sent = self.noter.notes.send(limit, below=self._lanes.oldest(self._routed))
            return [(time, self._lanes.without_passed(position)) for time, position in sent]

    @property
    def topology(self) -> Topology:
        """What events are routed over."""
        return self._lanes.topology

    @property
    def last(self) -> tuple[int | None, dict[int, int]]:
        """The newest noted time, and how far the events of this writer are acknowledged."""
        return self.noter.notes.last_time, self.noter.notes.reached

    @property
    def is_full(self) -> bool:
        """Whether writers should wait."""
        noter = self.noter
        return self._bytes >= self._limit and noter.failure is None and not noter.is_closed

    @property
    def unstored(self) -> int:
        """How many events are written and not acknowledged."""
        return self._written - self._stored

    @property
    def goal(self) -> Goal:
        """Everything up to now."""
        with self._lock:
            return Goal(self._written, self.noter.notes.made)

    def is_settled(self, goal: Goal) -> bool:
        """Return whether everything up to a goal is stored, or never will be.

        A note that is refused stops the notes, not the events written before.
        """
        with self._lock:
            if self._stuck:
                return True
            if self._lanes.oldest(self._routed) < goal.events:
                return False
            return self.noter.failure is not None or self.noter.notes.accepted >= goal.notes

    def wait_for_room(self) -> None:
        """Block the calling thread until there is room or the writer is over."""
        with self._room, self.blocked():
            self._room.wait_for(lambda: not self.is_full)

    def blocked(self) -> AbstractContextManager[None]:
        """Stop the clock of the strategy's idleness while a writer waits for room."""
        strategy = self.noter.strategy
        return nullcontext() if strategy is None else strategy.running.stopped()

    def close(self) -> None:
        """Refuse what comes from now on."""
        with self._room:
            self.noter.is_closed = True
            self._room.notify_all()

    def fail(self, error: BaseException, *, stuck: bool) -> None:
        """Stop: every later call raises this. Stuck, what is written already is not stored either."""
        with self._room:
            self._stuck = self._stuck or stuck
            self.noter.fail(error)
            self._room.notify_all()

    def _wake_for(self, count: int, size: int) -> Wake | None:
        """Count what was added; wake senders when there is something, and when there is enough."""
        self._written += count
        self._bytes += size
        before, self._unrouted_bytes = self._unrouted_bytes, self._unrouted_bytes + size
        if before < self.batch_bytes <= self._unrouted_bytes:
            return Wake.SEND
        return None if before else Wake.LINGER
