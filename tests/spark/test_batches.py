"""What a batch reads, over how many tasks, and what is still to read after it."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import StreamingQueryProgress

from spark_source.compatibility import read_offset, report_of
from tests.spark.feed import Feed, Followed


@pytest.mark.every_spark
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
            report_of(read_offset(one["sources"][0]["latestOffset"]))
            for one in _with_rows(followed)
        ]
    named = {"stream": feed.stream, "reader_group": None}
    assert [{name: one[name] for name in named} for one in reports] == [named] * len(reports)
    standing = [(one["lag_ms"], one["backlog_rows"]) for one in reports]
    assert standing == [(4_000, 3), (4_000, 1), (0, 0)]


def _with_rows(followed: Followed) -> list[StreamingQueryProgress]:
    return [one for one in followed.query.recentProgress if one["numInputRows"] > 1]
