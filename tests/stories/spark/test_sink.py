"""What a query emits is in the target once, with the time below which nothing will come."""

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import write_stream
from tests.spark.draining import DRAINS, finish
from tests.spark.feed import Feed
from tests.spark.targets import Target
from tidegauge.event_time import END_OF_TIME


@pytest.mark.every_spark
def test_windows_arrive_once_with_sparks_watermark_and_the_end_seals_the_target(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    def write(**options: Any) -> None:
        """Write until nothing is left to do, and go on from the checkpoint."""
        query = write_stream(
            feed.load(spark, operators="windows").transform(_counted),
            url=target.url,
            stream=target.stream,
            checkpoint=checkpoint,
            trigger="availableNow" if DRAINS else None,
            name="counts",
            **options,
        )
        assert query.name == "counts"
        finish(query)

    feed.write(1_000, 4_000, key="a")
    feed.write(4_500, 7_000, key="b")
    feed.note(6_000)
    write()
    assert target.counts() == [("a", 5_000, 2), ("b", 5_000, 1)]
    assert target.watermark == 6_000
    assert json.loads(target.rows()[0][2]) == {
        "key": "a",
        "window": {"start": "1970-01-02T00:00:00.000Z", "end": "1970-01-02T00:00:05.000Z"},
        "count": 2,
    }
    feed.seal()
    write()
    whole = [("a", 5_000, 2), ("b", 5_000, 1), ("b", 10_000, 1)]
    assert (target.counts(), target.watermark) == (whole, 6_000)  # it stays open
    write(seal=True)
    assert (target.counts(), target.watermark) == (whole, END_OF_TIME)
    write(seal=True)  # has nothing to add
    assert target.counts() == whole


def _counted(df: DataFrame) -> DataFrame:
    return df.groupBy("key", F.window("event_time", "5 seconds")).count()
