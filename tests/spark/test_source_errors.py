"""Clear errors, and nothing lost."""

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from spark_source import TidegaugeDataSource, TouchedLoadError, plain, watermarked
from tests.spark.feed import Feed, Followed


def test_a_filter_before_watermarked_is_refused(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options).load()
    with pytest.raises(TouchedLoadError, match="Call watermarked"):
        watermarked(loaded.where("key = 'a'"))


def test_plain_keeps_the_marker_out_of_parquet(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    query = (
        plain(feed.load(spark))
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "rows"))
    )
    assert query.awaitTermination(60)
    stored = spark.read.parquet(str(tmp_path / "rows"))
    assert stored.count() == 1
    assert all(not field.metadata for field in stored.schema.fields)


def test_an_event_time_that_spark_cannot_hold_fails_with_its_place(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    feed.write(-86_400_001)
    with (
        Followed(feed.load(spark), checkpoint) as followed,
        pytest.raises(StreamingQueryException, match="offset 1 of segment 0"),
    ):
        followed.query.awaitTermination(60)


def test_out_of_range_times_may_be_read_as_null(spark: SparkSession, feed: Feed) -> None:
    feed.write(1_000, -86_400_001)
    spark.dataSource.register(TidegaugeDataSource)
    options = feed.options | {"outOfRange": "null"}
    rows = spark.read.format("tidegauge").options(**options).load().collect()
    assert [row.event_time is None for row in rows] == [False, True]


def test_a_stream_created_again_under_a_checkpoint_is_refused(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    feed.note(2_000)
    with Followed(feed.load(spark), checkpoint) as followed:
        followed.until_bound(1_999)
    feed.delete()
    feed.create()
    with (
        Followed(feed.load(spark), checkpoint) as followed,
        pytest.raises(StreamingQueryException, match="deleted and created again"),
    ):
        followed.query.awaitTermination(60)


def test_an_unknown_option_is_refused(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    options = feed.options | {"maxRowPerTrigger": "5"}
    with pytest.raises(Exception, match=r"maxrowpertrigger.*no such option"):
        spark.read.format("tidegauge").options(**options).load().collect()
