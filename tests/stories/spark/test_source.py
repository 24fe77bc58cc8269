"""Spark's watermark is the bound, exactly, and what comes late is reported by name."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from reader_client import ReaderGroup
from spark_source import ProgressListener, TidegaugeDataSource, query_report
from tests.patience import wait_until
from tests.spark.feed import DAY, Feed, Followed
from writer_client import Writer

pytestmark = pytest.mark.every_spark


def _windows(df: DataFrame) -> DataFrame:
    counted = df.groupBy(F.window("event_time", "5 seconds")).count()
    return counted.select((F.unix_millis("window.start") - DAY).alias("start"), "count")


def test_time_alone_closes_a_window_within_two_batches_of_the_note_that_decides_it(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    with Followed(_windows(feed.load(spark, operators="windows")), checkpoint) as followed:
        followed.until_read(None)
        feed.note(3_000)  # before the first event
        followed.until_read(3_000)
        assert followed.watermarks == [0, 3_000]
        feed.write(3_000, 5_000)
        feed.note(4_000)
        followed.until_read(4_000)
        assert followed.rows == []
        for bound, window in ((5_000, (0, 1)), (10_000, (5_000, 1))):
            done = len(followed.batches)
            feed.note(bound)
            followed.until_read(bound)
            (emitted,) = (at for at, rows in followed.batches.items() if window in rows)
            assert emitted == done + 1
        assert followed.rows == [(0, 1), (5_000, 1)]
        assert followed.watermarks == [0, 3_000, 4_000, 5_000, 10_000]
        assert followed.dropped == 0
    rows = spark.read.format(TidegaugeDataSource.name()).options(**feed.options).load()
    assert [row.offset for row in rows.orderBy("offset").collect()] == [0, 1]


@pytest.fixture
def listener(spark: SparkSession, feed: Feed) -> Iterator[ProgressListener]:
    with ProgressListener(feed.url) as listener:
        spark.streams.addListener(listener)
        yield listener
        spark.streams.removeListener(listener)


def test_late_rows_are_counted_by_writer_in_the_metrics_of_the_service(
    spark: SparkSession, feed: Feed, checkpoint: str, listener: ProgressListener
) -> None:
    name = f"{feed.stream}-group"
    feed.write(1_000, 2_000)
    feed.note(10_000, "honest")
    rides = feed.load(spark, readerGroup=name)
    with (
        ReaderGroup(feed.url, name) as group,
        Followed(_windows(rides), checkpoint) as followed,
    ):
        followed.until_read(10_000)
        _break_promises(feed)
        wait_until(lambda: _progress(group).get("late") == 4)
        assert _shown(feed, name) == {
            "late_rows_total{}": 4,
            "late_by_seconds{}": 6,
            'late_writer_rows_total{writer="liar"}': 2,
            'late_writer_rows_total{writer="fibber"}': 1,
            "late_output_rows_total{}": 0,
        }
        followed.query.processAllAvailable()
        wait_until(lambda: group.position(feed.stream) == {0: 6})
        wait_until(lambda: _progress(group)["backlog"] == 0)
        progress = _progress(group)
        table = query_report(followed.query, batches=1_000).table
    assert table[["rows", "late"]].sum().to_list() == [6, 4]
    assert (progress["bound"], progress["lag_ms"]) == (DAY + 10_000, 0)
    assert progress["state_bytes"] > 0
    assert listener.failures == 0


def _break_promises(feed: Feed) -> None:
    """Write four late rows: two by a writer that promised better, one by another, one by nobody."""
    feed.write(4_500)
    for name, late in (("liar", [4_000, 9_000]), ("fibber", [9_500])):
        with Writer(feed.url, feed.stream, name) as writer:
            writer.note_time(DAY + 10_000)
            for at in late:
                writer.write(b"v", key="k", event_time=DAY + at)


def _progress(group: ReaderGroup) -> dict[str, Any]:
    """Read what the service knows of the query; nothing before it was reported."""
    progress = group.describe().progress
    return {} if progress is None else progress.model_dump()


def _shown(feed: Feed, group: str) -> dict[str, float]:
    """Read what the metrics say of the late rows of a group."""
    lines = httpx.get(f"{feed.url}/metrics").text.splitlines()
    named = f'group="{group}"'
    own = [line for line in lines if line.startswith("tidegauge_group_late") and named in line]
    texts = [line.removeprefix("tidegauge_group_").replace(f"{named},", "") for line in own]
    pairs = (text.replace(named, "").rsplit(" ", 1) for text in texts)
    return {name: float(value) for name, value in pairs}
