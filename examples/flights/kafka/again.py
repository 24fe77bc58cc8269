"""Reading the flights again with Spark's own Kafka source, in the batches that Tidegauge's made."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import pandas as pd
from confluent_kafka import Producer
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from examples.flights.batches import END_MS
from examples.flights.kafka.gate import Gate
from examples.flights.kafka.queries import TopicQueries, watermarks_told
from examples.flights.kafka.topic import PARTITIONS, FlightTopic
from examples.flights.queries import WindowQuery, raise_failure
from examples.flights.waiting import DemoFailedError, wait_until
from examples.flights.windows import ClosedWindows, check_rule, close_windows, guess
from tidegauge.client.kafka import settings_of

DELAYS_H = (1, 3, 6)
_EPOCH_MS = 1  # Kafka's client takes 0 for now
_NO_FLIGHT = b"{}"
_WRITE_S = 30.0
_STARTS_AGAIN = 3
_TOO_BUSY = "failed to connect back"
"""What Spark says of a Python process that took longer to start than it waits for one."""


def read_again(
    console: Console,
    topics: TopicQueries,
    topic: FlightTopic,
    records: pd.DataFrame,
    batches: int,
) -> list[ClosedWindows]:
    """Have four queries read a copy of a topic, batch by batch, and tell what each closed.

    The first follows the marks, the others guess by a delay; `DemoFailedError` if one closed other
    windows than the model of Spark's rule does. The records have ``batch``, ``departed``, ``origin``,
    ``key`` and ``value``, and their partition and offset as their index.
    """
    gate = Gate()
    reading = _Reading(topics, _Copy(topic, records), gate, batches)
    steps = reading.run()
    try:
        wait_until(
            lambda: next(steps, None) is None,
            "Spark's own Kafka source",
            go_on=reading.check,
            show=lambda: console.print(f"{reading.batch} of {batches} batches"),
            every_s=10,
            patience_s=inf,
        )
    finally:
        gate.remove()
    found = [query.finish() for query in reading.queries]
    followed, *_ = reading.queries
    told = [watermarks_told(followed.query.recentProgress)]
    told += [guess(records, batches, delay_h) for delay_h in DELAYS_H]
    for one, watermark in zip(found, told, strict=True):
        check_rule(one, close_windows(records, watermark))
        console.print(f"{one.name}: as the model of Spark's rule says, to the row")
    return found


class _Copy:
    """A copy of a topic, written batch by batch, each record at its partition and offset.

    One more partition has a record without a flight for each batch, so that there is something to
    read in each; that of the last batch tells the end of time.
    """

    def __init__(self, topic: FlightTopic, records: pd.DataFrame) -> None:
        self.topic = topic
        self._batches = dict(list(records.groupby("batch")))
        self._producer = Producer(settings_of(topic.settings))

    def write(self, batch: int, time_ms: int) -> None:
        """Write a batch, with the time of the record without a flight, and wait for it."""
        if batch in self._batches:
            own = self._batches[batch]
            partitions = own.index.get_level_values(0)
            columns = (own[name] for name in ("value", "key", "departed"))
            for value, key, departed, partition in zip(*columns, partitions, strict=True):
                self._produce(value, key, partition, departed)
        self._produce(_NO_FLIGHT, None, PARTITIONS, time_ms)
        if self._producer.flush(_WRITE_S):
            msg = f"batch {batch} was not stored in {self.topic.name} in {_WRITE_S:.0f} s"
            raise DemoFailedError(msg)

    def _produce(self, value: bytes, key: str | None, partition: int, time_ms: int) -> None:
        self._producer.produce(self.topic.name, value, key, partition, timestamp=time_ms)


class _Reading:
    """The queries, and how far they are."""

    def __init__(self, topics: TopicQueries, copy: _Copy, gate: Gate, batches: int) -> None:
        self.queries: list[WindowQuery] = []
        self.batch = 0
        self._starts: list[Callable[[], WindowQuery]] = []
        self._started_again = Counter[int]()
        self._topics = topics
        self._copy = copy
        self._gate = gate
        self._batches = batches

    def run(self) -> Iterator[bool]:
        """Write each batch and have all queries read it; yields while it has to be waited."""
        for batch in range(self._batches):
            self.batch = batch
            is_last = batch == self._batches - 1
            self._copy.write(batch, END_MS if is_last else _EPOCH_MS)
            if batch == 0:
                yield from self._start()
            else:
                self._gate.open()
            yield from self._wait()
        self._gate.remove()
        while not all(map(_knows_the_end, self.queries)):
            yield True

    def check(self) -> None:
        """Start queries again that failed before their first batch, for want of a Python process.

        Raise `DemoFailedError` for any other failure, and if that happens again and again.
        """
        for place, query in enumerate(self.queries):
            if not _found_no_time(query.query):
                raise_failure(query.query)
            elif query.query.lastProgress or self._started_again[place] == _STARTS_AGAIN:
                msg = "the machine is too busy for Spark to start its processes; run it again"
                raise DemoFailedError(msg)
            else:
                self._started_again[place] += 1
                self.queries[place] = self._starts[place]()

    def _start(self) -> Iterator[bool]:
        """Start one after another: on a busy machine Spark gives up Python processes that dawdle."""
        topic, after = self._copy.topic, self._gate.wait
        self._starts = [partial(self._topics.follow, topic, after=after)]
        self._starts += [
            partial(self._topics.guess, topic, delay_h, after=after) for delay_h in DELAYS_H
        ]
        for start in self._starts:
            yield from self._wait()
            self.queries.append(start())

    def _wait(self) -> Iterator[bool]:
        """Wait until all queries have finished the batch."""
        while self._gate.waiting < len(self.queries):
            yield True


def _found_no_time(query: StreamingQuery) -> bool:
    """Whether a query failed only because a Python process of Spark's took long to start."""
    return _TOO_BUSY in str(query.exception() or "")


def _knows_the_end(query: WindowQuery) -> bool:
    progress = query.query.lastProgress
    return progress is not None and progress["eventTime"].get("watermark", "") >= "9999"
