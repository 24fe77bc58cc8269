"""What all that note time have in common: notes, a strategy perhaps, and an end. No I/O."""

import threading
from collections.abc import Iterable

from tidegauge.errors import InvalidTimeError
from tidegauge.event_time import END_OF_TIME
from writer_client._clocked import ClockedStrategy
from writer_client._errors import WriterClosedError
from writer_client._hints import Hints
from writer_client._notes import Notes
from writer_client.strategies import ObservedEvent

_LATE = (
    "event time %d is below %d, which was noted before it: the event may be late. Note lower times, or "
    "give the strategy a longer delay; late_events counts such events"
)

_FUTURE = (
    "event time %d is above %d, this machine's clock plus max_future_skew_ms: the strategy leaves it out. "
    "Correct the clock that it is from or, if such times are meant, raise max_future_skew_ms"
)


class Noter:
    """The notes of one writer, usable from any thread; its owner holds the lock for several calls.

    Attributes
    ----------
    failure
        What stopped the writer.
    is_told
        Whether its owner knows that: a call has raised it.
    is_closed
        Whether it takes nothing more.
    in_transaction
        Whether its strategy has to wait for the end of a transaction.
    late_events
        How many events were below what was noted before them.
    """

    def __init__(
        self,
        writer: str,
        hints: Hints,
        strategy: ClockedStrategy | None = None,
        *,
        last_time: int | None = None,
    ) -> None:
        self.writer = writer
        self._hints = hints
        self.lock = threading.RLock()
        self.notes = Notes(last_time)
        self.strategy = strategy
        self.failure: BaseException | None = None
        self.is_told = False
        self.is_closed = False
        self.in_transaction = False
        self.late_events = 0

    def check(self, time: int) -> None:
        """Refuse a time that is below the time noted before, or the end of time."""
        last = self.notes.last_time
        if time >= END_OF_TIME or (last is not None and time < last):
            raise InvalidTimeError(self.writer, time, last)

    def observe(self, event: ObservedEvent) -> bool:
        """Compare an event with what was noted, and show it to the strategy; return whether to note right after it."""
        time, strategy = event.event_time, self.strategy
        self.compare(time)
        if strategy is None:
            return False
        at_once = strategy.observe(event)
        if time is not None and time > strategy.latest_ms and strategy.future_events:
            self._hints.log(self.writer, "future", _FUTURE, time, strategy.latest_ms)
        return at_once

    def observe_many(self, events: Iterable[ObservedEvent]) -> bool:
        """Observe events that are written one after the other; return whether to note right after them."""
        return sum([self.observe(event) for event in events]) > 0  # not any(): each is shown

    def compare(self, time: int | None) -> None:
        """Count an event that is below what was noted before it."""
        last = self.notes.last_time
        if time is not None and last is not None and time < last:
            self.count_late(1, time)

    def count_late(self, count: int, time: int) -> None:
        """Count events that are below what was noted before them, one of them at a time."""
        with self.lock:
            self.late_events += count
        self._hints.log(self.writer, "late", _LATE, time, self.notes.last_time or 0)

    def strategy_time(self) -> int | None:
        """Return what the strategy says, if that is new."""
        return None if self.strategy is None else self.strategy.time(self.notes.last_time)

    def time_to_note(self) -> int | None:
        """Return what the strategy says, if that is new and may be noted now."""
        if self.is_closed or self.failure is not None or self.in_transaction:
            return None
        return self.strategy_time()

    def accept(self) -> None:
        """Record that the notes on their way were accepted."""
        with self.lock:
            self.notes.accept()

    def put_back(self) -> None:
        """Let the notes on their way wait again."""
        with self.lock:
            self.notes.put_back()

    def promise(self, registered: int | None) -> int | None:
        """Return what a beat may say before a note is accepted; see `Notes.promise`."""
        with self.lock:
            return self.notes.promise(registered)

    @property
    def is_idle(self) -> bool:
        """Whether the strategy says that nobody should wait for the writer."""
        with self.lock:
            # What is in a transaction is shown to it at the end.
            return (
                self.strategy is not None and not self.in_transaction and self.strategy.is_idle
            )

    def fail(self, error: BaseException) -> None:
        """Stop: every later call raises this."""
        with self.lock:
            if self.failure is None:
                self.failure = error

    def raise_failure(self) -> None:
        """Raise what stopped the writer, if anything did."""
        if self.failure is not None:
            self.is_told = True
            raise self.failure.with_traceback(None)

    def refuse_if_over(self) -> None:
        """Raise what ended the writer, if anything did."""
        self.raise_failure()
        if self.is_closed:
            raise WriterClosedError(self.writer)
