"""What all that note time have in common: notes, a strategy perhaps, and an end. No I/O."""

import threading

from tidegauge.errors import InvalidTimeError
from tidegauge.event_time import END_OF_TIME
from writer_client._clocked import ClockedStrategy
from writer_client._errors import WriterClosedError
from writer_client._notes import Notes


class Noter:
    """The notes of one writer, usable from any thread; its owner holds the lock for several calls.

    Attributes
    ----------
    failure
        What stopped the writer.
    is_closed
        Whether it takes nothing more.
    in_transaction
        Whether its strategy has to wait for the end of a transaction.
    """

    def __init__(
        self, writer: str, strategy: ClockedStrategy | None = None, last_time: int | None = None
    ) -> None:
        self.writer = writer
        self.lock = threading.RLock()
        self.notes = Notes(last_time)
        self.strategy = strategy
        self.failure: BaseException | None = None
        self.is_closed = False
        self.in_transaction = False

    def check(self, time: int) -> None:
        """Refuse a time that is below the time noted before, or the end of time."""
        last = self.notes.last_time
        if time >= END_OF_TIME or (last is not None and time < last):
            raise InvalidTimeError(self.writer, time, last)

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
            raise self.failure.with_traceback(None)

    def refuse_if_over(self) -> None:
        """Raise what ended the writer, if anything did."""
        self.raise_failure()
        if self.is_closed:
            raise WriterClosedError(self.writer)
