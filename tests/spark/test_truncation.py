"""Queries whose stream loses its first events."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from reader_client import StreamClient
from tests.spark.feed import Feed, Followed


def test_a_checkpoint_that_needs_truncated_events_fails_unless_it_may_lose_them(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    with Followed(feed.load(spark).select("offset"), checkpoint) as followed:
        followed.until_read(3_000)
        assert [row[0] for row in followed.rows] == [0, 1]
    feed.write(3_000, 4_000, 5_000)
    with StreamClient(feed.url, feed.stream) as client:
        client.split(0)
        client.truncate(cut={0: 4})
    with (
        Followed(feed.load(spark).select("offset"), checkpoint) as followed,
        pytest.raises(
            StreamingQueryException,
            match="needs segment 0 from offset 2, and the log goes on at 4",
        ),
    ):
        followed.query.awaitTermination(60)
    feed.note(6_000)
    load = feed.load(spark, failOnDataLoss="false").select("offset")
    with Followed(load, checkpoint) as followed:
        followed.until_read(6_000)
        assert [row[0] for row in followed.rows] == [4]
    rows = spark.read.format("tidegauge").options(**feed.options).load()
    assert [row.offset for row in rows.collect()] == [4]
