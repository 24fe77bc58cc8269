"""Whenever a driver is killed, each row is in the target once, and its watermark is exact."""

import signal
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from reader_client import StreamClient
from tests.effort import Effort
from tests.server import ServerProcess
from tests.spark import sink_driver
from tests.spark.drivers import MOMENT, PATIENCE_S, driver, end_of, kill_later
from tests.spark.feed import DAY, Feed
from tests.spark.sink_driver import MOMENTS
from tests.spark.targets import Target, logged_batches
from tidegauge.event_time import END_OF_TIME

pytestmark = pytest.mark.timeout(PATIENCE_S)
_NUMBERS = count(1)
_WINDOW_S = 5
_KEYS = ("k0", "k1")


class Job:
    """A query over a sealed source, its target and its checkpoint."""

    def __init__(self, url: str, number: int, folder: Path, *, windows: int) -> None:
        self.source = Feed(url, f"spark/crash-source-{number}")
        self.target = Target(url, f"spark/crash-target-{number}")
        self.checkpoint = folder / "checkpoint"
        self._log = folder / "driver.log"
        self._starts = range(0, windows * _WINDOW_S, _WINDOW_S)

    def fill(self) -> None:
        """Write an event of each key a second, with a mark at the end of each window, and seal."""
        self.source.create(segments=2)
        self.target.create(segments=2)
        for start in self._starts:
            times = [second * 1_000 for second in range(start, start + _WINDOW_S)]
            for key in _KEYS:
                self.source.write(*times, key=key)
            self.source.note((start + _WINDOW_S) * 1_000)
        self.source.seal()

    def kill(self, moment: str = "", *, after_s: float | None = None) -> int:
        """Run the query in a driver that kills itself, and tell the driver's status.

        It kills itself at a moment, or is killed so long after its first batch.
        """
        streams = (self.source.url, self.source.stream, self.target.stream)
        arguments = ("-m", "tests.spark.sink_driver", *streams, str(self.checkpoint))
        named = {MOMENT: moment}
        with driver(*arguments, log=self._log, **named) as process:
            if after_s is not None:
                kill_later(process, self.checkpoint, after_s)
            return end_of(process, self._log)

    def finish(self, spark: SparkSession) -> None:
        """Run the query to its end: a checkpoint is of no driver, so this needs no JVM of its own."""
        streams = (self.source.url, self.source.stream, self.target.stream)
        query = sink_driver.start(spark, *streams, self.checkpoint)
        assert query.awaitTermination(PATIENCE_S)

    def check(self) -> None:
        """See that all is there once, and that the marks are Spark's watermarks."""
        ends = [(start + _WINDOW_S) * 1_000 for start in self._starts]
        assert self.target.counts() == [(key, end, _WINDOW_S) for key in _KEYS for end in ends]
        logged = {one.watermark - DAY for one in logged_batches(self.checkpoint)}
        with StreamClient(self.target.url, self.target.stream) as client:
            *marks, last = [mark.lower for mark in client.marks()]
        assert [mark - DAY for mark in marks] == sorted(
            one for one in logged if 0 < one <= ends[-1]
        )
        assert last == END_OF_TIME


@pytest.fixture
def job(shared_server: ServerProcess, tmp_path: Path, effort: Effort) -> Iterator[Job]:
    windows = effort.times("windows", short=8, long=40)
    number = next(_NUMBERS)
    one = Job(shared_server.url, number, tmp_path, windows=windows)
    with one.source, one.target:
        one.fill()
        yield one


def test_a_driver_may_die_at_every_step_of_a_batch(
    spark: SparkSession, job: Job, effort: Effort
) -> None:
    moments = effort.times("moments", short=1, long=len(MOMENTS))
    for moment in MOMENTS[
        -moments:
    ]:  # the last one leaves a batch that is published and not logged
        assert job.kill(moment) == -signal.SIGKILL
    job.finish(spark)
    job.check()


@pytest.mark.soak
def test_a_driver_may_die_at_any_moment(spark: SparkSession, job: Job, effort: Effort) -> None:
    kills = effort.times("kills", short=20, long=20)
    for seed in range(kills):
        job.kill(after_s=Random(seed).uniform(0, 1.5))
    job.finish(spark)
    job.check()
