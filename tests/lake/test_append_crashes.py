"""Whenever a driver is killed, the table has each row once and keeps the laws at each version."""

import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from reader_client import StreamClient
from tests.effort import Effort
from tests.lake import driver
from tests.lake.driver import AGAIN, OF_BATCHES, OF_NOTES, Streams
from tests.lake.jobs import TABLE
from tests.lake.lakes import Lake
from tests.lake.laws import check, check_marks, read
from tests.server import ServerProcess
from tests.service.api import Api
from tests.spark import drivers
from tests.spark.drivers import MOMENT, PATIENCE_S
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until

pytestmark = pytest.mark.timeout(PATIENCE_S)
_WINDOW_S = 5
_KEYS = ("k0", "k1")


@dataclass(frozen=True)
class Query:
    """Counts a source in windows, and appends them to a table of a lake."""

    source: Feed
    target: str
    lake: Lake
    folder: Path
    windows: int

    def fill(self) -> None:
        """Write an event of each key a second, with a mark at the end of each window."""
        self.source.create(segments=2)
        for start in self.starts:
            times = [second * 1_000 for second in range(start, start + _WINDOW_S)]
            for key in _KEYS:
                self.source.write(*times, key=key)
            self.source.note((start + _WINDOW_S) * 1_000)

    @property
    def starts(self) -> range:
        return range(0, self.windows * _WINDOW_S, _WINDOW_S)

    @property
    def streams(self) -> Streams:
        return Streams(self.source.url, self.source.stream, self.target)

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    def kill(self, moment: str = "", *, after_s: float | None = None) -> int:
        """Run the query in a driver that kills itself at a moment, or is killed so much later."""
        lake = (str(self.lake.folder), self.lake.space)
        arguments = ("-m", "tests.lake.driver", *self.streams, *lake, str(self.checkpoint))
        log = self.folder / "driver.log"
        with drivers.driver(*arguments, log=log, **{MOMENT: moment}) as process:
            if after_s is not None:
                drivers.kill_later(process, self.checkpoint, after_s)
            return drivers.end_of(process, log)

    def finish(self, spark: SparkSession) -> None:
        """End the source, and run the query to its end: a checkpoint is of no driver."""
        self.source.seal()
        query = driver.start(spark, self.streams, self.lake, str(self.checkpoint))
        driver.finish(query, self.streams, self.lake)

    def check(self) -> None:
        """See that all is there once, and that notes and marks are right."""
        versions = read(self.lake, TABLE, "key", "start")
        check(versions)
        found = sorted((key, time - DAY) for one in versions for key, time in one.rows)
        assert found == [(key, start * 1_000) for key in _KEYS for start in self.starts]
        if self.target:
            with StreamClient(self.source.url, self.target) as client:
                check_marks(versions, marks := client.marks())
            assert marks[-1].lower == END_OF_TIME
        else:
            until = complete_until(self.lake.table(TABLE), catalog=self.lake.catalog)
            assert until == END_OF_TIME


@pytest.fixture(params=["service", "notes"])
def query(
    request: pytest.FixtureRequest,
    shared_server: ServerProcess,
    lake: Lake,
    tmp_path: Path,
    effort: Effort,
) -> Iterator[Query]:
    target = f"lake/{lake.space}-target" if request.param == "service" else ""
    if target:
        with Api(shared_server.url, target) as api:
            api.create(mark_resolution_ms=0)
    windows = effort.times("windows", short=3, long=40)
    with Feed(shared_server.url, f"lake/{lake.space}-source") as source:
        one = Query(source, target, lake, tmp_path, windows)
        one.fill()
        yield one


def test_a_driver_may_die_at_every_step_of_a_batch_and_of_a_note(
    lake_spark: SparkSession, query: Query, effort: Effort
) -> None:
    # The first one leaves a batch that is committed and not noted, or not in Spark's log.
    steps = (OF_BATCHES[1], AGAIN, *OF_BATCHES[::2]) if query.target else OF_NOTES[::-1]
    moments = effort.times("moments", short=1, long=len(steps))
    for moment in steps[:moments]:
        assert query.kill(moment) == -signal.SIGKILL
    query.finish(lake_spark)
    query.check()


@pytest.mark.soak
def test_a_driver_may_die_at_any_moment(
    lake_spark: SparkSession, query: Query, effort: Effort
) -> None:
    kills = effort.times("kills", short=20, long=20)
    for seed in range(kills):
        query.kill(after_s=Random(seed).uniform(0, 1.5))
    query.finish(lake_spark)
    query.check()
