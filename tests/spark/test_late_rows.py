"""Late rows are data: how late, by whose broken promise, and what becomes of them."""

import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource, watermarked
from tests.spark.feed import DAY, Feed, Followed
from writer_client import Writer


def test_the_columns_of_a_row_are_these(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options).load()
    assert [f"{one.name} {one.dataType.simpleString()}" for one in loaded.schema] == [
        "key string",
        "event_time timestamp",
        "value binary",
        "segment bigint",
        "offset bigint",
        "watermark timestamp",
        "late boolean",
        "tick boolean",
        "late_by bigint",
        "late_below timestamp",
        "writer string",
        "append_time timestamp",
    ]
    without_ticks = [name for name in loaded.columns if name != "tick"]
    assert watermarked(loaded).columns == without_ticks


def test_a_row_says_who_appended_it_and_when(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    begun = _now_ms()
    with Writer(feed.url, feed.stream, "sensor-7") as writer:
        writer.write(b"v", key="k", event_time=DAY)
    feed.write(0)  # by nobody
    rows = feed.load(spark).select("offset", "writer", F.unix_millis("append_time"))
    with Followed(rows, checkpoint) as followed:
        followed.until(lambda: len(followed.rows) == 2, "both rows")
    assert [row[:2] for row in followed.rows] == [(0, "sensor-7"), (1, None)]
    first, second = (row[2] for row in followed.rows)
    assert begun <= first <= second <= _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
