"""What a batch reads, over how many tasks, and what is still to read after it."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tests.spark.feed import Feed, Followed


def test_the_progress_says_how_far_a_query_is_behind_in_time_and_rows(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(4_000, 5_000, 6_000)
    feed.note(7_000)
    limits = {"maxRowsPerTrigger": "2", "admission": "marks"}
    with Followed(feed.load(spark, **limits), checkpoint) as followed:
        followed.until_read(7_000)
        reports = [
            json.loads(one["sources"][0]["latestOffset"]) for one in _with_rows(followed)
        ]
    named = {"stream": feed.stream, "reader_group": None}
    assert [{name: one[name] for name in named} for one in reports] == [named] * len(reports)
    standing = [(one["lag_ms"], one["backlog_rows"]) for one in reports]
    assert standing == [(4_000, 3), (4_000, 1), (0, 0)]


def _with_rows(followed: Followed) -> list[StreamingQueryProgress]:
    return [one for one in followed.query.recentProgress if one["numInputRows"] > 1]


def test_a_segment_is_divided_over_tasks_and_every_row_is_read_once(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(*range(1_000, 1_010))
    feed.note(2_000)
    loaded = feed.load(spark, maxRowsPerPartition="4")
    placed = loaded.select("offset", F.spark_partition_id())
    with Followed(placed, checkpoint) as followed:
        followed.until_read(2_000)
    parts = [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert sorted(followed.rows) == list(enumerate(parts))
