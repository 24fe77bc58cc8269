"""What a running query tells the service of itself, by way of a listener."""

from collections.abc import Iterator

import httpx
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from reader_client import ReaderGroup
from spark_source import ProgressListener, query_report
from tests.patience import wait_until
from tests.spark.feed import DAY, Feed, Followed
from tidegauge.wire.groups import NotedProgress
from writer_client import Writer


@pytest.fixture
def listener(spark: SparkSession, feed: Feed) -> Iterator[ProgressListener]:
    with ProgressListener(feed.url) as one:
        spark.streams.addListener(one)
        yield one
        spark.streams.removeListener(one)


def _windows(feed: Feed, spark: SparkSession, **options: str) -> DataFrame:
    rides = feed.load(spark, **options)
    return rides.groupBy(F.window("event_time", "5 seconds")).count().select("count")


def _told(feed: Feed) -> NotedProgress | None:
    with ReaderGroup(feed.url, f"{feed.stream}-group") as group:
        return group.describe().progress


def _break_promises(feed: Feed) -> None:
    """Write three late rows: two by one writer that promised better, and one by another."""
    for name, late in (("liar", [4_000, 9_000]), ("fibber", [9_500])):
        with Writer(feed.url, feed.stream, name) as writer:
            writer.note_time(DAY + 10_000)
            for time in late:
                writer.write(b"v", key="k", event_time=DAY + time)


@pytest.mark.every_spark
def test_late_rows_are_counted_by_writer_in_the_metrics_of_the_service(
    spark: SparkSession, feed: Feed, checkpoint: str, listener: ProgressListener
) -> None:
    feed.write(1_000, 2_000)
    feed.note(10_000, "honest")
    counts = _windows(feed, spark, readerGroup=f"{feed.stream}-group")
    with Followed(counts, checkpoint) as followed:
        followed.until_bound(9_999)
        _break_promises(feed)
        wait_until(lambda: (told := _told(feed)) is not None and told.late == 3)
        shown = httpx.get(f"{feed.url}/metrics").text.splitlines()
        group = f'group="{feed.stream}-group"'
        assert {one for one in shown if "group_late" in one and group in one} == {
            f"tidegauge_group_late_rows_total{{{group}}} 3.0",
            f"tidegauge_group_late_by_seconds{{{group}}} 6.0",
            f'tidegauge_group_late_writer_rows_total{{{group},writer="liar"}} 2.0',
            f'tidegauge_group_late_writer_rows_total{{{group},writer="fibber"}} 1.0',
            f"tidegauge_group_late_output_rows_total{{{group}}} 0.0",
        }
        followed.query.processAllAvailable()
        wait_until(lambda: (told := _told(feed)) is not None and told.backlog == 0)
        told = _told(feed)
        assert told is not None
        assert (told.bound, told.lag_ms) == (DAY + 10_000, 0)
        assert (told.state_bytes or 0) > 0
        table = query_report(followed.query, batches=1_000).table
        assert table[["rows", "late"]].sum().to_list() == [5, 3]
    assert listener.failures == 0


def test_a_query_without_a_group_tells_nothing(
    spark: SparkSession, feed: Feed, checkpoint: str, listener: ProgressListener
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    with Followed(feed.load(spark).select("offset"), checkpoint) as followed:
        followed.until_read(2_000)
    assert feed.groups() == []
    assert listener.failures == 0


def test_a_query_goes_on_while_nobody_can_be_told_and_an_idle_one_tells_again(
    spark: SparkSession, feed: Feed, checkpoint: str, listener: ProgressListener
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    group = f"{feed.stream}-group"
    rows = feed.load(spark, readerGroup=group).select("offset")
    with Followed(rows, checkpoint) as followed, ReaderGroup(feed.url, group) as made:
        followed.until_read(2_000)
        wait_until(lambda: _told(feed) is not None)
        made.delete()
        wait_until(lambda: listener.failures >= 2)
        assert followed.query.isActive
        made.create([feed.stream], start_cut={feed.stream: {0: 1}})
        wait_until(lambda: _told(feed) is not None)
