"""Process functions on Spark: what the pure operator says, in real queries."""

import pytest
from pyspark.sql import SparkSession

from spark_source import process
from tests.spark.feed import Feed, Followed
from tests.spark.processors import Timeouts


@pytest.mark.parametrize("steps", [[60], [5, 11, 24, 25, 60]])
def test_timers_fire_in_the_order_of_event_time_however_the_bound_steps(
    spark: SparkSession, feed: Feed, checkpoint: str, steps: list[int]
) -> None:
    feed.write(40, 0, 10)
    timeouts = process(feed.load(spark), Timeouts()).output()
    with Followed(timeouts, checkpoint) as followed:
        for bound in steps:
            feed.note(bound)
            followed.until_read(bound)
    assert followed.rows == [("k", 25, "OFF"), ("k", 55, "OFF")]
