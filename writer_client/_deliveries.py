"""What was produced to a log of one's own, and the notes that wait for its acknowledgements. No I/O.

Records belong to the span between two notes. A span counts its records and those that are acknowledged,
and remembers how far they reach; so acknowledgements may come in any order, and a note is due once its
span and all before it are settled.

Usable from any thread, but for acknowledgements: they come one at a time. Producing and acknowledging
take no lock, which would cost more than all the rest of them.
"""

import threading
from collections import deque
from collections.abc import Callable
from itertools import count
from types import MethodType
from typing import Protocol, TypeAlias

from tidegauge.errors import InvalidTimeError
from tidegauge.event_time import END_OF_TIME
from tidegauge.topology import Position
from writer_client._errors import (
    DeliveryFailedError,
    FailedRecord,
    NoAcknowledgementsError,
    WriterClosedError,
)
from writer_client._noting import Noting
from writer_client.strategies import ObservedEvent

_MOST_DUE = 10_000
"""Notes that are due and cannot be sent; the next ones give up their own cuts, not their times."""


class Record(Protocol):
    """A record as a delivery report has it, like ``confluent_kafka.Message``."""

    def topic(self) -> str | None:
        """Name its topic."""

    def partition(self) -> int | None:
        """Name its partition."""

    def offset(self) -> int | None:
        """Tell where it is stored; None if nobody knows."""

    def key(self) -> bytes | None:
        """Return its key."""

    def value(self) -> bytes | None:
        """Return its value."""


Sent: TypeAlias = int | tuple[int, object]
"""A timestamp, ms, 0 if none was given; with headers if there are any. A report of a failure has neither."""
Heard: TypeAlias = Callable[[Sent, object, Record], None]


class Span:
    """Records between two notes.

    Attributes
    ----------
    heard
        Takes in the delivery report of one of its records, behind what it was sent with.
    heard_at
        The same, bound to the timestamp that was produced last: the next record often has it, too.
    """

    __slots__ = (
        "acknowledged",
        "begun",
        "end",
        "given_up",
        "heard",
        "heard_at",
        "held",
        "position",
        "time",
        "total",
    )

    def __init__(self, deliveries: "Deliveries", *, held: bool) -> None:
        self.time: int | None = None
        """What is noted behind it, if anything is."""
        self.begun = count()
        self.end = 0
        """How many were begun before it was closed."""
        self.total: int | None = None
        """How many records it has, once it is not the last span."""
        self.given_up = 0
        self.acknowledged = 0
        self.position: dict[int, int] = {}
        self.held = held
        """Whether it is part of a transaction that is not committed."""
        self.heard = self._hearing(deliveries)
        self.heard_at = MethodType(self.heard, 0)

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will come to it."""
        return self.acknowledged == self.total

    def _hearing(self, deliveries: "Deliveries") -> Heard:
        """Make what takes in delivery reports: as a closure it costs a third less than as a method."""
        position = self.position
        wake = deliveries.wake

        def heard(sent: Sent, error: object, record: Record) -> None:
            if error is not None:
                timestamp, headers = sent if isinstance(sent, tuple) else (sent, None)
                deliveries.fail(self, FailedRecord.of(record, error, timestamp, headers))
            elif (offset := record.offset()) is None:
                deliveries.settle_anywhere()
            else:
                partition: int = record.partition()  # type: ignore[assignment] # it has an offset
                try:
                    # A record that was retried may lie behind one that was produced after it.
                    if offset >= position[partition]:
                        position[partition] = offset + 1
                except KeyError:
                    position[partition] = offset + 1
            self.acknowledged = acknowledged = self.acknowledged + 1
            if acknowledged == self.total:
                wake()

        return heard


class Deliveries:
    """Records and notes between who produces, who acknowledges and who sends notes.

    ``wake`` is called when there may be something new to send or to poll for.
    """

    def __init__(self, writer: str, noting: Noting | None, wake: Callable[[], object]) -> None:
        self._writer = writer
        self._noting = noting
        self.wake = wake
        self._lock = threading.Lock()
        self._in_transaction = False
        self._last = Span(self, held=False)
        self._spans = deque([self._last])
        self._reached: dict[int, int] = {}
        """How far the settled spans reach."""
        self._unclaimed: dict[int, int] = {}
        """What of it no note has named yet."""
        self._due: list[tuple[int, Position]] = []
        self._on_their_way = 0
        self._failed: list[tuple[Span, FailedRecord]] = []
        self._saw_offsets = False
        self._accepted: int | None = None
        self._last_time: int | None = None
        self.wants_ends = True
        """Whether the next note to be sent must cover the ends of the log."""
        self._failure: BaseException | None = None
        self._closed = False
        self._is_fine = True
        """Whether `begin` has nothing to raise."""

    def begin(self) -> Span:
        """Take in that a record is handed over to be produced.

        The race: a note comes between the look at the last span and the count. So it is looked at
        again; who was counted in a span that is closed takes the next one.

        Raises what stopped the producer and, with a strategy, failed deliveries, once.
        """
        if not self._is_fine:
            self._check()
        while True:
            span = self._last
            number = next(span.begun)
            if span is self._last:
                return span
            with self._lock:
                if span.total is not None and number < span.end:
                    span.total -= 1
            self.wake()

    def withdraw(self, span: Span) -> None:
        """Take in that a record was not handed over after all."""
        with self._lock:
            if span.total is None:
                span.given_up += 1
            else:
                span.total -= 1
        self.wake()

    def observe(self, event: ObservedEvent) -> None:
        """Show the strategy a record that was handed over; note right behind it, if it says so."""
        with self._lock:
            if self._noting is not None and self._noting.observe(event, self._last_time):
                self._note_by_strategy()

    def fail(self, span: Span, record: FailedRecord) -> None:
        """Take in that a record may not be stored: no note behind it counts."""
        with self._lock:
            self._failed.append((span, record))
            self._is_fine = False
            self._withhold(behind=span)

    def settle_anywhere(self) -> None:
        """Take in that a record is stored, and nobody knows where.

        It is a duplicate, unless no record's place was ever told: then nobody tells what is stored.
        """
        with self._lock:
            if self._saw_offsets or any(one.position for one in self._spans):
                self.wants_ends = True
            else:
                self._stop(NoAcknowledgementsError(self._writer))

    def note(self, time: int) -> None:
        """Note a time behind all records so far; raise failed deliveries instead, once."""
        with self._lock:
            self._refuse_if_over()
            self._tell_failed()
            if time >= END_OF_TIME or (self._last_time is not None and time < self._last_time):
                raise InvalidTimeError(self._writer, time, self._last_time)
            self._note(time)
        self.wake()

    def note_by_strategy(self) -> None:
        """Note what the strategy says."""
        with self._lock:
            if self._closed or self._failure is not None:
                return
            self._note_by_strategy()
        self.wake()

    def begin_transaction(self) -> None:
        """Hold what is produced and noted from now on."""
        with self._lock:
            self._in_transaction = True
            self._add_span()

    def commit(self) -> None:
        """Let go of what was held."""
        self._end_transaction(aborted=False)

    def abort(self) -> None:
        """Forget notes and failures of the transaction: its records are seen by nobody."""
        self._end_transaction(aborted=True)

    def due(self, limit: int) -> list[tuple[int, Position]]:
        """Put notes whose records are all stored on their way, in order; none before `cover`."""
        with self._lock:
            self._settle_spans()
            waits = self.wants_ends or self._failure is not None
            self._on_their_way = 0 if waits else min(limit, len(self._due))
            return self._due[: self._on_their_way]

    def cover(self, ends: Position) -> None:
        """Let the first note that is not on its way cover the ends of the log, and so the others."""
        with self._lock:
            self._reach(ends)
            # What is on its way says what it says; the note behind it covers the ends.
            first = self._on_their_way
            if len(self._due) > first:
                time, position = self._due[first]
                claimed, self._unclaimed = self._unclaimed, {}
                self._due[first] = time, {**position, **claimed}
                behind = [(time, _joined(ends, one)) for time, one in self._due[first:]]
                self._due[first:] = behind

    def accept(self) -> None:
        """Take in that the notes on their way were accepted."""
        with self._lock:
            self._accepted = self._due[self._on_their_way - 1][0]
            del self._due[: self._on_their_way]
            self._on_their_way = 0

    def promise(self, told: int | None) -> int | None:
        """Tell what a beat may say while no note was accepted; nothing is noted below it then."""
        with self._lock:
            if told is None:
                return None
            waiting = [one.time for one in self._spans if one.time is not None]
            waiting += [time for time, _ in self._due]
            said = min([told, *waiting])
            if self._accepted is None:
                self._accepted = said
            if self._last_time is None:
                self._last_time = said
            return said

    @property
    def is_polled_for(self) -> bool:
        """Whether a note may wait for an acknowledgement."""
        with self._lock:
            self._settle_spans()
            return len(self._spans) > 1 and not self._spans[0].is_settled

    @property
    def has_due(self) -> bool:
        """Whether a note waits for nothing but to be sent."""
        with self._lock:
            self._settle_spans()
            return len(self._due) > 0

    @property
    def is_waited_for(self) -> bool:
        """Whether a note is not accepted, of an open transaction too."""
        with self._lock:
            return bool(self._due) or any(one.time is not None for one in self._spans)

    def missing(self) -> tuple[int, int]:
        """Count records that are not acknowledged, and notes outside of transactions not accepted."""
        with self._lock:
            self._add_span()
            records = sum((one.total or 0) - one.acknowledged for one in self._spans)
            waiting = sum(one.time is not None and not one.held for one in self._spans)
            return records, waiting + len(self._due)

    @property
    def last(self) -> tuple[int | None, Position]:
        """The newest accepted time, and how far everything is stored."""
        with self._lock:
            self._settle_spans()
            reached = dict(self._reached)
            for span in self._spans:
                _raise_to(reached, dict(span.position))
            return self._accepted, reached

    @property
    def is_idle(self) -> bool:
        """Whether the strategy says that nobody should wait for the writer."""
        with self._lock:
            return self._noting is not None and self._noting.is_idle

    def stop(self, error: BaseException) -> None:
        """Let every later call raise an error."""
        with self._lock:
            self._stop(error)

    def _stop(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._is_fine = False

    def close(self) -> None:
        """Refuse what comes from now on."""
        self._closed = True
        self._is_fine = False

    def raise_failure(self) -> None:
        """Raise what stopped the producer, or failed deliveries that nobody was told of."""
        with self._lock:
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            self._tell_failed()

    @property
    def is_stopped(self) -> bool:
        """Whether something has gone wrong for good."""
        return self._failure is not None

    def _refuse_if_over(self) -> None:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        if self._closed:
            raise WriterClosedError(self._writer)

    def _tell_failed(self) -> None:
        if self._failed:
            failed = [record for _, record in self._failed]
            self._failed = []
            self._is_fine = not self._closed
            # Nobody knows which of them were stored.
            self.wants_ends = True
            self.wake()
            raise DeliveryFailedError(self._writer, failed)

    def _check(self) -> None:
        with self._lock:
            self._refuse_if_over()
            if self._noting is not None:
                self._tell_failed()

    def _note_by_strategy(self) -> None:
        time = None if self._noting is None else self._noting.time(self._last_time)
        # Until the caller knows of failed deliveries, no note counts.
        if time is not None and not self._failed:
            self._note(time)

    def _note(self, time: int) -> None:
        """Note behind the last span; if nothing was begun since a note, that one promises more."""
        self._last_time = time
        last = self._last
        self._add_span()
        before = self._spans[-3] if len(self._spans) > 2 else None
        if last.total == 0 and before is not None and before.time is not None:
            before.time = time
        else:
            last.time = time

    def _add_span(self) -> None:
        """Close the last span. The order matters: who was counted before the look of `begin` counts."""
        closed, self._last = self._last, Span(self, held=self._in_transaction)
        closed.end = next(closed.begun)
        closed.total = closed.end - closed.given_up
        self._spans.append(self._last)

    def _withhold(self, behind: Span) -> None:
        """Drop the notes from a span on."""
        found = False
        for one in self._spans:
            found = found or one is behind
            if found:
                one.time = None
        self._forget_dropped()

    def _forget_dropped(self) -> None:
        """Let a note be below those that were dropped."""
        kept = [one.time for one in self._spans if one.time is not None]
        kept = kept or [time for time, _ in self._due[-1:]]
        self._last_time = kept[-1] if kept else self._accepted

    def _end_transaction(self, *, aborted: bool) -> None:
        with self._lock:
            self._in_transaction = False
            held = [one for one in self._spans if one.held]
            if aborted:
                self._failed = [(span, one) for span, one in self._failed if not span.held]
                self._is_fine = not (self._failed or self._failure or self._closed)
                for span in held:
                    span.time = None
                self._forget_dropped()
            for span in held:
                span.held = False
            self._add_span()
        self.wake()

    def _settle_spans(self) -> None:
        """Make notes of the first spans due, as far as all records before them are stored."""
        while len(self._spans) > 1:
            span = self._spans[0]
            if span.held or not span.is_settled:
                return
            self._saw_offsets = self._saw_offsets or bool(span.position)
            self._reach(span.position)
            if span.time is not None:
                self._add_due(span.time)
            self._spans.popleft()

    def _add_due(self, time: int) -> None:
        position, self._unclaimed = self._unclaimed, {}
        if len(self._due) > max(_MOST_DUE, self._on_their_way):
            _, before = self._due.pop()
            position = {**before, **position}  # offsets rise
        self._due.append((time, position))

    def _reach(self, position: Position) -> None:
        for partition, offset in position.items():
            # A record that was retried may lie behind one that was produced after it.
            furthest = max(offset, self._reached.get(partition, 0))
            self._reached[partition] = self._unclaimed[partition] = furthest


def _raise_to(position: dict[int, int], other: Position) -> None:
    for partition, offset in other.items():
        position[partition] = max(offset, position.get(partition, 0))


def _joined(ends: Position, position: Position) -> Position:
    """Let a position that was made before the ends were read not fall behind them."""
    return {one: max(offset, ends.get(one, 0)) for one, offset in position.items()}
