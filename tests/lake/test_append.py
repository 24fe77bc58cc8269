"""A chain of tables whose driver is killed keeps the laws at each version, and ends where Python does."""

import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from reader_client import StreamClient
from tests.effort import Effort
from tests.lake.driver import MOMENTS, Chain
from tests.lake.histories import HOUR
from tests.lake.lakes import Lake
from tests.lake.laws import check, check_marks, read
from tests.service.api import Api
from tests.spark import drivers
from tests.spark.drivers import MOMENT, PATIENCE_S
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until, intervals, version_at

pytestmark = pytest.mark.timeout(PATIENCE_S)
_DISORDER = 2 * HOUR


def _fill(feed: Feed, events: int) -> list[int]:
    """Write events of a day, two hours out of order at most; return their times."""
    random = Random(5)
    times = [number * 24 * HOUR // events for number in range(events)]
    arrivals = sorted((time + random.randrange(_DISORDER), time) for time in times)
    for start in range(0, events, 50):
        part = arrivals[start : start + 50]
        feed.write(*(time for _, time in part))
        feed.note(part[-1][0] - _DISORDER)
    feed.seal()
    return [DAY + time for time in times]


def _kill(chain: Chain, log: Path, moment: str = "", *, after_s: float | None = None) -> int:
    """Run the chain in a driver that kills itself at a moment, or is killed so much later."""
    lake = str(chain.lake.folder), chain.lake.space
    arguments = "-m", "tests.lake.driver", *lake, chain.url, chain.source, chain.target
    with drivers.driver(*arguments, log=log, **{MOMENT: moment}) as process:
        if after_s is not None:
            drivers.kill_later(process, chain.checkpoints, after_s)
        return drivers.end_of(process, log)


def test_a_chain_whose_driver_is_killed_keeps_the_laws_and_ends_where_python_does(
    lake_spark: SparkSession, feed: Feed, lake: Lake, tmp_path: Path, effort: Effort
) -> None:
    times = _fill(feed, effort.times("events", short=600, long=6_000))
    chain = Chain(lake, feed.url, feed.stream, f"lake/{lake.space}-silver")
    with Api(feed.url, chain.target) as api:
        api.create(mark_resolution_ms=0)
    log = tmp_path / "driver.log"
    for moment in MOMENTS[: effort.times("moments", short=1, long=len(MOMENTS))]:
        assert _kill(chain, log, moment) == -signal.SIGKILL
    lake.compact(lake_spark, "bronze")
    for seed in range(effort.times("kills", short=0, long=20)):
        _kill(chain, log, after_s=Random(seed).uniform(0, 1.5))
    chain.run(lake_spark)
    bronze = lake.read(lake_spark, "bronze")
    assert bronze.columns == ["key", "event_time", "of.ride"]
    assert "watermarkDelay" not in bronze.schema.json()
    _check_bronze(lake, times)
    check(silver := read(lake, "silver", "hour", "hour"))
    with StreamClient(feed.url, chain.target) as client:
        check_marks(silver, marks := client.marks())
    assert marks[-1].lower == END_OF_TIME
    rows = lake.read(lake_spark, "silver").select(F.unix_millis("hour").alias("at"), "count")
    counted = {row["at"]: row["count"] for row in rows.collect()}
    assert counted == Counter(time // HOUR * HOUR for time in times)


def _check_bronze(lake: Lake, times: list[int]) -> None:
    check(versions := read(lake, "bronze", "key", "event_time"))
    assert sorted(at for one in versions for _, at in one.rows) == times
    table, catalog = lake.table("bronze"), lake.catalog
    assert complete_until(table, catalog=catalog) == END_OF_TIME
    middle = DAY + 12 * HOUR
    version = version_at(table, middle, catalog=catalog)
    assert version is not None
    covered = [at for one in versions if one.number <= version for _, at in one.rows]
    assert sum(at < middle for at in covered) == sum(at < middle for at in times)
    # The query has noted by which column the table is listed.
    found = intervals(table, catalog=catalog)
    assert [one.start for one in found.new] == sorted({at // HOUR * HOUR for at in times})
