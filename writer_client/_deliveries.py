"""What was produced to a log of one's own, and the notes that wait for its acknowledgements. No I/O.

Records belong to the span between two notes. A span counts its records and those that are acknowledged,
and remembers how far they reach; so acknowledgements may come in any order, and a note is due once its
span and all before it are settled.

Usable from any thread, but for acknowledgements: they come one at a time. Producing and acknowledging
take no lock, which would cost more than all the rest of them.
"""

from collections import deque
from collections.abc import Callable
from itertools import count
from types import MethodType
from typing import TypeAlias

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME as LOG_APPEND_TIME
from confluent_kafka import Message

from tidegauge.topology import Position
from writer_client._errors import (
    DeliveryFailedError,
    FailedRecord,
    LogAppendTimeError,
    NoAcknowledgementsError,
)
from writer_client._noter import Noter
from writer_client._notes import raise_to
from writer_client.strategies import ObservedEvent

Sent: TypeAlias = int | tuple[int, object]
"""A timestamp, ms, 0 if none was given; with headers if there are any. A report of a failure has neither."""
Heard: TypeAlias = Callable[[Sent, object, Message], None]


class Span:
    """Records between two notes.

    Attributes
    ----------
    number
        One more than that of the span before it.
    heard
        Records the delivery report of one of its records, behind what it was sent with.
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
        "number",
        "position",
        "total",
    )

    def __init__(self, deliveries: "Deliveries", number: int, *, held: bool) -> None:
        self.number = number
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
        """Make what records delivery reports: as a closure it costs a third less than as a method."""
        position = self.position
        wake = deliveries.wake

        def heard(sent: Sent, error: object, record: Message) -> None:
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
                    # Once a span and partition: for each record it would cost a call.
                    if deliveries.by_timestamp and record.timestamp()[0] == LOG_APPEND_TIME:
                        name = deliveries.noter.writer
                        deliveries.stop(LogAppendTimeError(name, record.topic()))
            self.acknowledged = acknowledged = self.acknowledged + 1
            if acknowledged == self.total:
                wake()

        return heard


class Deliveries:
    """Records and notes between who produces, who acknowledges and who sends notes.

    ``wake`` is called when there may be something new to send or to poll for.
    """

    def __init__(self, noter: Noter, wake: Callable[[], object]) -> None:
        self.noter = noter
        self.wake = wake
        self._lock = noter.lock
        self._in_transaction = False
        self._last = Span(self, 0, held=False)
        self._spans = deque([self._last])
        self._failed: list[tuple[Span, FailedRecord]] = []
        self._saw_offsets = False
        self.by_timestamp = False
        """Whether a record has no other event time than its timestamp."""
        self.wants_ends = True
        """Whether the next note to be sent must cover the ends of the log."""
        self._is_fine = True
        """Whether `begin` has nothing to raise."""

    def begin(self, event_time: object = None) -> Span:
        """Count a record that is handed over to be produced; without an event time its timestamp is that.

        The race: a note comes between the read of the last span and the count. So that is read
        again: a record counted in a span that is closed is counted again in the next one.

        Raises what stopped the producer and, with a strategy, failed deliveries, once.
        """
        if event_time is None:
            self.by_timestamp = True
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
        """Record that a record was not handed over after all."""
        with self._lock:
            if span.total is None:
                span.given_up += 1
            else:
                span.total -= 1
        self.wake()

    def observe(self, event: ObservedEvent) -> None:
        """Show the strategy a record that was handed over; note right behind it, if it says so."""
        with self._lock:
            if self.noter.observe(event):
                self._note_by_strategy()

    def fail(self, span: Span, record: FailedRecord) -> None:
        """Record that a record may not be stored: no note behind it counts."""
        with self._lock:
            self._failed.append((span, record))
            self._is_fine = False
            self.noter.notes.drop(span.number)

    def settle_anywhere(self) -> None:
        """Record that a record is stored, and nobody knows where.

        It is a duplicate, unless no record's place was ever known: then nobody says what is stored.
        """
        with self._lock:
            if self._saw_offsets or any(one.position for one in self._spans):
                self.wants_ends = True
            else:
                self.stop(NoAcknowledgementsError(self.noter.writer))

    def note(self, time: int) -> None:
        """Note a time behind all records so far; raise failed deliveries instead, once."""
        with self._lock:
            self.noter.refuse_if_over()
            self._raise_failed()
            self.noter.check(time)
            self._note(time)
        self.wake()

    def note_by_strategy(self) -> None:
        """Note what the strategy says."""
        with self._lock:
            self._note_by_strategy()
        self.wake()

    def begin_transaction(self) -> None:
        """Hold what is produced and noted from now on."""
        with self._lock:
            self._in_transaction = True
            self._add_span()

    def commit(self) -> None:
        """Release what was held."""
        self._end_transaction(aborted=False)

    def abort(self) -> None:
        """Forget notes and failures of the transaction: its records are seen by nobody."""
        self._end_transaction(aborted=True)

    def send_notes(self, limit: int) -> list[tuple[int, Position]]:
        """Put notes whose records are all stored on their way, in order; none before `cover`."""
        with self._lock:
            failure = self.noter.failure
            # A note from before the first report: only what was under way by then can be late for it.
            is_over = failure is not None and not isinstance(failure, LogAppendTimeError)
            waits = self.wants_ends or is_over
            return self.noter.notes.send(0 if waits else limit, below=self._settled())

    def cover(self, ends: Position) -> None:
        """Let the first note that is not on its way cover the ends of the log, and so the others."""
        with self._lock:
            self.noter.notes.cover(ends)

    @property
    def is_polled_for(self) -> bool:
        """Whether a note may wait for an acknowledgement."""
        with self._lock:
            self._settled()
            return len(self._spans) > 1 and not self._spans[0].is_settled

    @property
    def has_ready(self) -> bool:
        """Whether a note waits for nothing but to be sent."""
        with self._lock:
            return self.noter.notes.ready(self._settled()) > 0

    def missing(self) -> tuple[int, int]:
        """Count records that are not acknowledged, and notes outside of transactions not accepted."""
        with self._lock:
            self._add_span()
            records = sum((one.total or 0) - one.acknowledged for one in self._spans)
            return records, self.noter.notes.ready(self._held or self._last.number)

    @property
    def last(self) -> tuple[int | None, Position]:
        """The newest accepted time, and how far everything is stored."""
        with self._lock:
            self._settled()
            reached = dict(self.noter.notes.reached)
            for span in self._spans:
                raise_to(reached, dict(span.position))
            return self.noter.notes.accepted_time, reached

    def stop(self, error: BaseException) -> None:
        """Stop: every later call raises this."""
        self.noter.fail(error)
        self._is_fine = False

    def close(self) -> None:
        """Refuse what comes from now on."""
        self.noter.is_closed = True
        self._is_fine = False

    def raise_failure(self) -> None:
        """Raise what stopped the producer, or failed deliveries that were not raised yet."""
        with self._lock:
            self.noter.raise_failure()
            self._raise_failed()

    def _raise_failed(self) -> None:
        if self._failed:
            failed = [record for _, record in self._failed]
            self._failed = []
            self._is_fine = not self.noter.is_closed
            # Nobody knows which of them were stored.
            self.wants_ends = True
            self.wake()
            raise DeliveryFailedError(self.noter.writer, failed)

    def _check(self) -> None:
        with self._lock:
            self.noter.refuse_if_over()
            if self.noter.strategy is not None:
                self._raise_failed()

    def _note_by_strategy(self) -> None:
        time = self.noter.time_to_note()
        # Until the caller knows of failed deliveries, no note counts.
        if time is not None and not self._failed:
            self._note(time)

    def _note(self, time: int) -> None:
        """Note behind the last span; if nothing was begun since a note, that one promises more."""
        last = self._last
        self._add_span()
        end = last.number + 1
        self.noter.notes.add(time, end, since=end if last.total else last.number)

    def _add_span(self) -> None:
        """Close the last span. The order matters: a record counted before `begin` reads again counts."""
        closed = self._last
        self._last = Span(self, closed.number + 1, held=self._in_transaction)
        closed.end = next(closed.begun)
        closed.total = closed.end - closed.given_up
        self._spans.append(self._last)

    @property
    def _held(self) -> int | None:
        """The number of the first span of a transaction that is not committed."""
        return next((one.number for one in self._spans if one.held), None)

    def _end_transaction(self, *, aborted: bool) -> None:
        with self._lock:
            self._in_transaction = False
            if aborted:
                self._failed = [(span, one) for span, one in self._failed if not span.held]
                noter = self.noter
                self._is_fine = not (self._failed or noter.failure or noter.is_closed)
                if (held := self._held) is not None:
                    noter.notes.drop(held)
            for span in self._spans:
                span.held = False
            self._add_span()
        self.wake()

    def _settled(self) -> int:
        """Settle the first spans, as far as all their records are stored; return the next one's number."""
        while len(self._spans) > 1:
            span = self._spans[0]
            if span.held or not span.is_settled:
                break
            self._saw_offsets = self._saw_offsets or bool(span.position)
            self.noter.notes.reach(span.position, span.number)
            self._spans.popleft()
        return self._spans[0].number
