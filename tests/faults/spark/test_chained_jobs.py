"""Three chained jobs, killed at random, end where one pandas program does, each watermark exact."""

import subprocess
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from examples.chained_jobs import JOBS
from reader_client import StreamClient
from spark_source import TidegaugeDataSource
from spark_source.options.times import GREATEST_TIME
from tests.effort import Effort
from tests.server import ServerProcess
from tests.spark.drivers import PATIENCE_S, driver, end_of, kill_later
from tests.spark.targets import Logged, logged_batches
from tidegauge.event_time import END_OF_TIME

pytestmark = [pytest.mark.timeout(PATIENCE_S), pytest.mark.soak]


class Chain:
    """The example, in streams of its own scope."""

    def __init__(self, url: str, scope: str, folder: Path, *, days: int) -> None:
        self._url, self._scope = url, scope
        self.folder, self.log = folder / "jobs", folder / "driver.log"
        named = ("--url", url, "--scope", scope, "--folder", str(self.folder))
        self._command = ("-m", "examples.chained_jobs", *named, "--days", str(days))

    def start(self, *jobs: str) -> "AbstractContextManager[subprocess.Popen[bytes]]":
        """Start some jobs in one process, or all of them."""
        chosen = ("--jobs", *jobs) if jobs else ()
        return driver(*self._command, *chosen, log=self.log)

    def check(self, spark: SparkSession) -> None:
        """See that nothing is late in any stream, and that each has the marks that were due."""
        for name, job in JOBS.items():
            stream = f"{self._scope}/{job.target}"
            noted = _noted(logged_batches(self.folder / name), is_stateful=name != "alerts")
            with StreamClient(self._url, stream) as client:
                marks = [mark.lower for mark in client.marks(limit=1_000)]
            # Spark keeps the last hundred batches.
            assert [mark for mark in marks if mark >= noted[0]] == [*noted, END_OF_TIME]
            assert _late(spark, self._url, stream) == 0


def _noted(batches: list[Logged], *, is_stateful: bool) -> list[int]:
    """Tell what was noted behind the batches, but for the end."""
    if is_stateful:
        times = {batch.watermark for batch in batches if batch.watermark < GREATEST_TIME}
        return sorted(times - {0})
    bounds = {end["bound"] for batch in batches for end in batch.ends}
    return sorted(bounds - {None, END_OF_TIME})


def _late(spark: SparkSession, url: str, stream: str) -> int:
    """Count the events that were appended below a watermark that stood already."""
    spark.dataSource.register(TidegaugeDataSource)
    rows = spark.read.format("tidegauge").options(url=url, stream=stream).load()
    return rows.where("late").count()


def test_chained_jobs_killed_at_random_end_where_pandas_does(
    shared_server: ServerProcess,
    spark: SparkSession,
    tmp_path: Path,
    effort: Effort,
) -> None:
    days = effort.times("days of flights", short=7, long=7)
    chain = Chain(shared_server.url, "chain", tmp_path, days=days)
    for seed in range(effort.times("kills", short=10, long=10)):
        with chain.start() as process:
            kill_later(process, chain.folder, Random(seed).uniform(0, 4))
    with chain.start() as process:
        assert end_of(process, chain.log) == 0
    assert chain.log.read_text().count(", as pandas computes them") >= len(JOBS)
    chain.check(spark)


def test_jobs_of_a_chain_killed_one_by_one_end_where_pandas_does(
    shared_server: ServerProcess,
    spark: SparkSession,
    tmp_path: Path,
    effort: Effort,
) -> None:
    chain = Chain(shared_server.url, "lone", tmp_path, days=7)
    names, random = list(JOBS), Random(1)
    with chain.start("hourly") as process:  # which writes the flights
        kill_later(process, chain.folder, 0)
    with ExitStack() as stack:
        running = {name: stack.enter_context(chain.start(name)) for name in names}
        for _ in range(effort.times("kills", short=20, long=20)):
            name = random.choice(names)
            kill_later(running[name], chain.folder / name, random.uniform(0, 4))
            running[name] = stack.enter_context(chain.start(name))
        assert [end_of(process, chain.log) for process in running.values()] == [0, 0, 0]
    assert chain.log.read_text().count(", as pandas computes them") >= len(JOBS)
    chain.check(spark)
