"""Streams and slices of them as batches of Spark."""

import pytest
from pyspark.sql import Row, SparkSession

from spark_source import TidegaugeDataSource
from tests.spark.feed import DAY, Feed


def _batch(spark: SparkSession, feed: Feed, **options: str) -> list[Row]:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.read.format("tidegauge").options(**feed.options, **options).load()
    columns = ("offset", "late", "late_by", "late_below", "watermark", "tick")
    return loaded.select(*columns).orderBy("offset").collect()


def test_a_batch_read_of_a_slice_of_time_has_its_rows_and_says_what_was_late(
    spark: SparkSession, feed: Feed
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(2_500, 3_000, 4_500)
    feed.note(5_000)
    assert _batch(spark, feed) == [
        (0, False, None, None, None, False),
        (1, False, None, None, None, False),
        (2, True, 500, None, None, False),
        (3, False, None, None, None, False),
        (4, False, None, None, None, False),
    ]
    times = {"startingTime": str(DAY + 2_000), "endingTime": str(DAY + 4_000)}
    assert [row.offset for row in _batch(spark, feed, **times)] == [1, 2, 3]
    assert [row.offset for row in _batch(spark, feed, startingCut="0:3")] == [3, 4]
    assert [row.offset for row in _batch(spark, feed, endingCut="0:2")] == [0, 1]
    assert _batch(spark, feed, startingOffsets="latest") == []


def test_a_slice_that_is_not_complete_yet_is_refused_unless_allowed(
    spark: SparkSession, feed: Feed
) -> None:
    feed.write(1_000, 2_000)
    feed.note(1_500)
    wanted = {"endingTime": str(DAY + 2_000)}
    with pytest.raises(Exception, match="not_complete_yet"):
        _batch(spark, feed, **wanted)
    allowed = _batch(spark, feed, **wanted, allowIncomplete="true")
    assert [row.offset for row in allowed] == [0]
