"""Whenever a driver is killed, each row comes out once, and watermarks are exact."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import groupby
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from examples.telemetry import MINUTE_MS, Reading, generate
from reader_client import StreamClient
from spark_source.processing import ProcessOperator
from tests.broker import Broker
from tests.effort import Effort
from tests.honest_feed import HonestFeed, steps_of
from tests.server import ServerProcess
from tests.spark import killed
from tests.spark.drivers import MOMENT, PATIENCE_S, driver, end_of, kill_later
from tests.spark.feed import DAY, Feed
from tests.spark.kafka_feed import KafkaFeed
from tests.spark.killed import MOMENTS, Places, kept
from tests.spark.processors import Visits
from tests.spark.targets import Target, logged_batches
from tidegauge.event_time import END_OF_TIME

pytestmark = pytest.mark.timeout(PATIENCE_S)
_WINDOW_MS = 5_000
_KEYS = ("k0", "k1")


class _Queries:
    """The queries of a driver, over what they read to the end."""

    def __init__(self, url: str, bootstrap: str, folder: Path, *, windows: int) -> None:
        self._folder, self._log = folder, folder / "driver.log"
        self._stack = ExitStack()
        enter = self._stack.enter_context
        self._source = enter(Feed(url, "crashes/source"))
        self._target = enter(Target(url, "crashes/target"))
        self._readings = enter(HonestFeed(url, "crashes/readings"))
        self._topic = enter(KafkaFeed(url, bootstrap, "crashes"))
        streams = self._source.stream, self._target.stream, self._readings.stream
        self._places = Places(url, *streams, bootstrap, self._topic.topic)
        self._starts = range(0, windows * _WINDOW_MS, _WINDOW_MS)
        self._read = generate(devices=8, hours=windows, every_ms=5 * MINUTE_MS)
        self._written, self._late = Counter[int](), Counter[int]()

    def close(self) -> None:
        self._stack.close()

    def fill(self) -> None:
        """Write all that the queries read."""
        self._source.create(segments=2)
        self._target.create(segments=2)
        self._readings.create(segments=1)
        self._topic.create(partitions=2)
        for start in self._starts:
            for key in _KEYS:
                self._source.write(*range(start, start + _WINDOW_MS, 1_000), key=key)
            self._source.note(start + _WINDOW_MS)
            self._fill_topic(start)
        self._source.seal()
        self._topic.write(0)
        self._late[DAY] += 1
        self._topic.seal()
        self._readings.write_all(steps_of(self._read, 30 * MINUTE_MS))

    def _fill_topic(self, start: int) -> None:
        """Write the rows of a window, and one of the window before, which breaks the promise."""
        partition = start // _WINDOW_MS % 2
        self._topic.write(*range(start, start + _WINDOW_MS, 500), partition=partition)
        self._written[DAY + start] += 10
        if start:
            self._topic.write(start - 1, partition=partition)
            self._late[DAY + start - _WINDOW_MS] += 1
        self._topic.note(start + _WINDOW_MS)

    def kill(self, moment: str = "", *, after_s: float | None = None) -> int:
        """Run the queries in a driver, and return its status.

        It kills itself at a moment of the sink, or is killed so long after its first batch.
        """
        arguments = ("-m", "tests.spark.killed", str(self._folder), *self._places)
        with driver(*arguments, log=self._log, **{MOMENT: moment}) as process:
            if after_s is not None:
                kill_later(process, self._folder, after_s)
            return end_of(process, self._log)

    def finish(self, spark: SparkSession) -> None:
        """Run the queries to their end: a checkpoint is of no driver, so this needs no JVM of its own."""
        for query in killed.start(spark, self._folder, self._places):
            assert query.awaitTermination(PATIENCE_S)

    def check_target(self) -> None:
        """Assert that all is there once, and that the marks are Spark's watermarks."""
        ends = [start + _WINDOW_MS for start in self._starts]
        assert self._target.counts() == [(key, end, 5) for key in _KEYS for end in ends]
        batches = logged_batches(self._folder / "sink" / "checkpoint")
        logged = {batch.watermark - DAY for batch in batches}
        with StreamClient(self._target.url, self._target.stream) as client:
            *marks, last = [mark.lower for mark in client.marks()]
        reached = sorted(watermark for watermark in logged if 0 < watermark <= ends[-1])
        assert [mark - DAY for mark in marks] == reached
        assert last == END_OF_TIME

    def check_visits(self) -> None:
        """Assert that a processor put out what the operator does: for each key all, and in order."""
        rows = kept(self._folder / "visits")
        assert [row for row in rows if row[0] == "late"] == []
        main = [json.loads(text) for output, text, _ in rows if output == "main"]
        visits = [(row["key"], row["number"], row["seen"]) for row in main]
        assert _by_key(visits) == _by_key(_expected_visits(self._read))

    def check_topic(self) -> None:
        """Assert that each row is in one window, which fires once, or late."""
        assert _windows(kept(self._folder / "read")) == (self._written, Counter())
        followed, late = _windows(kept(self._folder / "followed"))
        assert followed + late == self._written + self._late
        assert Counter({DAY: 1}) <= late <= self._late


def _expected_visits(readings: list[Reading]) -> list[tuple[str, int, list[str]]]:
    operator = ProcessOperator(Visits(), columns=["number", "shown"])
    # One segment: offsets are the order of writing, in which each step was written.
    rows = [
        (reading.key, reading.event_time, 0, offset, offset, str(reading.value))
        for offset, reading in enumerate(readings)
    ]
    state = operator.step(None, None, rows).state
    out = operator.step(state, END_OF_TIME, []).out
    return [(key, number, seen) for key, _, number, seen in out]


def _by_key(
    visits: list[tuple[str, int, list[str]]],
) -> dict[str, list[tuple[str, int, list[str]]]]:
    ordered = sorted(visits, key=lambda visit: visit[0])
    return {key: list(own) for key, own in groupby(ordered, key=lambda visit: visit[0])}


def _windows(rows: list[list[object]]) -> tuple[Counter[int], Counter[int]]:
    """Add up what is in each window, and what is handed out as late."""
    windows, late = Counter[int](), Counter[int]()
    for output, start, count in rows:
        assert isinstance(start, int)
        assert isinstance(count, int)
        assert output == "late" or start not in windows
        (late if output == "late" else windows)[start] += count
    return windows, late


@pytest.fixture
def queries(
    broker: Broker, shared_server: ServerProcess, tmp_path: Path, effort: Effort
) -> Iterator[_Queries]:
    windows = effort.times("windows", short=8, long=40)
    queries = _Queries(shared_server.url, broker.bootstrap, tmp_path, windows=windows)
    queries.fill()
    yield queries
    queries.close()


def test_a_driver_may_die_at_every_step_of_a_batch_and_at_any_moment(
    kafka_spark: SparkSession, queries: _Queries, effort: Effort
) -> None:
    moments = effort.times("moments", short=1, long=len(MOMENTS))
    for moment in MOMENTS[-moments:]:  # the last leaves a batch published and not logged
        assert queries.kill(moment) == -signal.SIGKILL
    for seed in range(effort.times("kills at random", short=0, long=20)):
        queries.kill(after_s=Random(seed).uniform(0, 2))
    queries.finish(kafka_spark)
    queries.check_target()
    queries.check_visits()
    queries.check_topic()
