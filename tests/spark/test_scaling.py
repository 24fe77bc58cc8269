"""Queries over a stream whose segments split and merge meanwhile."""

from collections import Counter
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from reader_client import ReaderGroup, StreamClient
from tests.spark.feed import DAY, Feed, Followed

KEYS = [f"key-{number}" for number in range(6)]


def _write(feed: Feed, truth: Counter[int], start: int) -> None:
    """Write a window of five seconds, each key at other times, and note its end."""
    for place, key in enumerate(KEYS):
        times = range(start + place, start + 5_000, 500 * (place + 1))
        feed.write(*times, key=key)
        truth[start] += len(times)
    feed.note(start + 5_000)


def _windows(load: partial[DataFrame]) -> DataFrame:
    counted = load().groupBy(F.window("event_time", "5 seconds")).count()
    return counted.select((F.unix_millis("window.start") - DAY).alias("start"), "count")


def test_a_query_goes_through_a_split_and_a_merge_and_a_restart(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    truth: Counter[int] = Counter()
    load = partial(feed.load, spark, operators="windows", readerGroup="scaled")
    with StreamClient(feed.url, feed.stream) as client:
        with Followed(_windows(load), checkpoint) as followed:
            _write(feed, truth, 0)
            followed.until_read(5_000)
            client.split(0, 3)
            _write(feed, truth, 5_000)
            followed.until_read(10_000)
            client.merge([1, 2])
            found = followed.rows
        _write(feed, truth, 10_000)
        client.scale([3, 4], [(0, 0.2), (0.2, 1)])
        _write(feed, truth, 15_000)
        client.split(6)
        with Followed(_windows(load), checkpoint) as followed:
            followed.until_read(20_000)
            _write(feed, truth, 20_000)
            followed.until_read(25_000)
            assert followed.dropped == 0
            found += followed.rows
        tail = client.tail().tail
    assert sorted(found) == sorted(truth.items())
    with ReaderGroup(feed.url, "spark/scaled") as group:
        assert group.position(feed.stream) == tail
    rows = spark.read.format("tidegauge").options(**feed.options).load()
    assert rows.where("late").count() == 0
    assert rows.count() == sum(truth.values())


def test_a_backfill_reads_what_was_scaled_in_order_of_time(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    truth: Counter[int] = Counter()
    with StreamClient(feed.url, feed.stream) as client:
        for step in range(0, 30_000, 5_000):
            _write(feed, truth, step)
            growing = client.topology().unsealed
            if len(growing) == 1:
                client.split(growing[0])
            else:
                client.merge(growing)
    feed.seal()
    load = partial(
        feed.load, spark, operators="windows", maxRowsPerTrigger="20", admission="marks"
    )
    with Followed(_windows(load), checkpoint) as followed:
        followed.query.processAllAvailable()
        followed.until(lambda: len(followed.rows) == 6, "the last window")
        assert followed.rows == sorted(truth.items())
        assert followed.dropped == 0
