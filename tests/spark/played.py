"""Spark's part in a query of the source, played in this process: it plans, logs, reads and commits."""

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Self

from spark_source import TidegaugeDataSource
from spark_source.compatibility import ReadLimit
from spark_source.data_source import StreamReader
from spark_source.logs.choice import _reader_of_worker
from spark_source.options.load import read_options
from tests.patience import wait_until
from tests.spark.feed import DAY
from tidegauge.event_time import to_event_time

Rows = list[tuple[Any, ...]]


class Played:
    """A query without state; entered, it runs, and entered again, it goes on from its offset log.

    Attributes
    ----------
    batches
        Of each batch the named columns of its rows, without the tick; times are less a day.
    ends
        The offset log.
    done
        How many batches are in the commit log: a batch more in the other is repeated.
    """

    def __init__(self, options: Mapping[str, str], *columns: str, drains: bool = False) -> None:
        self.batches: dict[int, Rows] = {}
        self.ends: list[dict[str, Any]] = []
        self.done = 0
        self._options = read_options(dict(options))
        self._columns = columns
        self._drains = drains
        self._begin: dict[str, Any] = {}

    def __enter__(self) -> Self:
        _reader_of_worker.cache_clear()  # tasks of another driver run in other processes
        self.reader = StreamReader(self._options)
        if self._drains:
            self.reader.prepareForTriggerAvailableNow()
        if self.done == 0:
            self._begin = self.reader.initialOffset()
        return self

    def __exit__(self, *_: object) -> None:
        self.reader.stop()

    def plan(self) -> bool:
        """Log the end of the next batch, unless one is to be repeated or there is nothing new."""
        if len(self.ends) > self.done:
            return True
        start = self._start_of(self.done)
        end = self.reader.latestOffset(start, ReadLimit())
        if end == start:
            return False
        self.ends.append(end)
        if self.done:
            self.reader.commit(start)
        return True

    def step(self) -> bool:
        """Do a batch; return whether there was one to do."""
        if not self.plan():
            return False
        number = self.done
        parts = self.reader.partitions(self._start_of(number), self.ends[number])
        sent = [pickle.loads(pickle.dumps(part)) for part in parts]
        self.batches[number] = list(
            _chosen((batch for part in sent for batch in self.reader.read(part)), self._columns)
        )
        self.done += 1
        return True

    def read(self) -> None:
        """Do batches until there is nothing new."""
        while self.step():
            pass

    def until(self, done: Callable[[], bool]) -> None:
        """Do batches until something holds."""

        def holds() -> bool:
            self.read()
            return done()

        wait_until(holds)

    def until_read(self, bound: int | None) -> None:
        """Do batches until one ends at a bound."""
        self.until(lambda: bool(self.ends) and self.bounds[-1] == bound)

    def until_rows(self, count: int) -> None:
        """Do batches until so many rows were read."""
        self.until(lambda: len(self.rows) == count)

    def crash(self, batch: int) -> None:
        """Forget all behind a batch's entry in the offset log, and what came out of it."""
        del self.ends[batch + 1 :]
        self.done = batch
        self.batches = {number: rows for number, rows in self.batches.items() if number < batch}

    @property
    def rows(self) -> Rows:
        """What came out, batch after batch."""
        return [row for number in sorted(self.batches) for row in self.batches[number]]

    @property
    def bounds(self) -> list[int | None]:
        """The bound of each batch's end, less a day."""
        bounds = [end["bound"] for end in self.ends]
        return [None if bound is None else bound - DAY for bound in bounds]

    def _start_of(self, number: int) -> dict[str, Any]:
        return self.ends[number - 1] if number else self._begin


def read_batch(options: Mapping[str, str], *columns: str) -> Rows:
    """Read as a batch of Spark does, in order."""
    source = TidegaugeDataSource(dict(options))
    reader = source.reader(source.schema())
    batches = (batch for part in reader.partitions() for batch in reader.read(part))
    return sorted(_chosen(batches, columns))


def _chosen(batches: Iterable[Any], columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Choose columns of rows that are no ticks."""
    for batch in batches:
        for row in batch.to_pylist():
            if not row["tick"]:
                yield tuple(_less_a_day(row[column]) for column in columns)


def _less_a_day(value: Any) -> Any:
    return to_event_time(value) - DAY if isinstance(value, datetime) else value
