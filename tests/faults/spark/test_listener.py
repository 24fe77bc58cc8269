"""What a query reports of itself where nobody listens, and where it has no group."""

import httpx
from pyspark.sql import SparkSession

from reader_client import ReaderGroup
from spark_source import ProgressListener
from tests.patience import wait_until
from tests.spark.feed import Feed, Followed


def test_a_query_without_a_group_reports_nothing_and_an_idle_one_reports_again_to_whoever_is_back(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    name = f"{feed.stream}-group"
    feed.write(1_000)
    feed.note(2_000)
    with ProgressListener(feed.url) as listener, ReaderGroup(feed.url, name) as group:
        spark.streams.addListener(listener)
        with Followed(feed.load(spark).select("offset"), f"{checkpoint}-alone") as followed:
            followed.until_read(2_000)
        assert listener.failures == 0
        assert name not in _groups(feed)
        rows = feed.load(spark, readerGroup=name).select("offset")
        with Followed(rows, checkpoint) as followed:
            followed.until_read(2_000)
            wait_until(lambda: group.describe().progress is not None)
            group.delete()
            wait_until(lambda: listener.failures >= 2)
            assert followed.query.isActive
            group.create([feed.stream], start_cut={feed.stream: {0: 1}})
            wait_until(lambda: group.describe().progress is not None)
        spark.streams.removeListener(listener)


def _groups(feed: Feed) -> list[str]:
    answer = httpx.get(f"{feed.url}/v1/reader-groups", params={"limit": 1_000})
    return [group["group"] for group in answer.raise_for_status().json()["groups"]]
