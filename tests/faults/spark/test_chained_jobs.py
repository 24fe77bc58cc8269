"""Three chained jobs, killed at random, end where one pandas program does, each watermark exact."""

from functools import partial
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
    shared_server: ServerProcess, spark: SparkSession, tmp_path: Path, effort: Effort
) -> None:
    url, folder, log = shared_server.url, tmp_path / "jobs", tmp_path / "driver.log"
    days = effort.times("days of flights", short=7, long=7)
    named = ("--url", url, "--scope", "chain", "--folder", str(folder), "--days", str(days))
    jobs = partial(driver, "-m", "examples.chained_jobs", *named, log=log)
    for seed in range(effort.times("kills", short=10, long=10)):
        with jobs() as process:
            kill_later(process, folder, Random(seed).uniform(0, 4))
    with jobs() as process:
        assert end_of(process, log) == 0
    assert log.read_text().count(", as pandas computes them") >= len(JOBS)
    for name, job in JOBS.items():
        noted = _noted(logged_batches(folder / name), is_stateful=name != "alerts")
        with StreamClient(url, f"chain/{job.target}") as client:
            marks = [mark.lower for mark in client.marks(limit=1_000)]
        # Spark keeps the last hundred batches.
        assert [mark for mark in marks if mark >= noted[0]] == [*noted, END_OF_TIME]
        assert _late(spark, url, f"chain/{job.target}") == 0
