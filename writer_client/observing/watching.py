"""What an observer is asked for, and what it shows of itself."""

from collections.abc import Collection, Mapping
from datetime import timedelta
from typing import Literal, NamedTuple

from tidegauge.event_time import describe_span
from tidegauge.names import StreamName
from tidegauge.topology import Position
from writer_client.observing.rules import Guess, ReadPromise, ReadTime, ReadValue
from writer_client.observing.sources import Counts


class Watching(NamedTuple):
    """What an observer reads, and how.

    Attributes
    ----------
    stream, topic
        Whose time it notes, and what it reads.
    value_of
        Returns what distinguishes the writers of a partition; None: one for each partition.
    time_of
        Returns the event time; None: of promises, it is not checked.
    promise_of
        Returns what a record promises; None: time is guessed.
    guess
        How time is guessed.
    idle
        A writer that is silent for so long leaves; None: never.
    hold_limit
        So does one that holds the others, farther behind them, for so long; None: never.
    excepted
        Writers, or values of which writers are made, that note time by themselves.
    since
        Where a partition begins of which no writer is known yet.
    until_end
        Whether to end at the ends there are at the start.
    """

    stream: StreamName
    topic: str
    value_of: ReadValue | None
    time_of: ReadTime | None
    promise_of: ReadPromise | None
    guess: Guess
    idle: timedelta | None
    hold_limit: timedelta | None
    excepted: Collection[str]
    since: Literal["beginning", "end"]
    until_end: bool

    def is_excepted(self, value: str, writer: str) -> bool:
        """Return whether a writer notes time by itself."""
        return value in self.excepted or writer in self.excepted


class Progress(NamedTuple):
    """How far an observer is.

    Attributes
    ----------
    writers
        How many it speaks for.
    holding, left_out
        Who holds all others, or did for too long, and how far behind these, ms; None: without a
        time that can be believed.
    counts
        What it has seen.
    behind
        How many offsets it is behind the ends, as asked last.
    open_transactions
        Partitions in which a transaction is open, and its offset: nothing from there on can be read.
    watermark
        Of the stream, ms.
    unreadable
        Where the first record lies whose time could not be read, and why; None without.
    """

    writers: int
    holding: Mapping[str, int | None]
    left_out: Mapping[str, int | None]
    counts: Counts
    behind: int
    open_transactions: Position
    watermark: int | None
    unreadable: str | None


def describe_behind(
    behind_ms: int | None, *, without: str = "an event time that can be believed"
) -> str:
    """Describe how far somebody is behind the others; None: without what would tell."""
    if behind_ms is None:
        return f"without {without}"
    return f"{describe_span(behind_ms)} behind"
