"""Spark's watermark is the bound: what closes when, and that nothing honest is dropped."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.feed import DAY, Feed, Followed


def _starts(followed: Followed) -> list[tuple[int, int]]:
    return sorted(
        (round(start.replace(tzinfo=UTC).timestamp() * 1_000) - DAY, events)
        for start, events in followed.rows
    )


def _windows(df: DataFrame, size: str, slide: str | None = None) -> DataFrame:
    counted = df.groupBy(F.window("event_time", size, slide)).count()
    return counted.select("window.start", "count")


def test_a_window_that_ends_at_the_bound_closes_at_once(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 9_999)
    feed.note(10_000)
    loaded = feed.load(spark, operators="windows")
    with Followed(_windows(loaded, "5 seconds"), checkpoint) as followed:
        followed.until_bound(10_000)
        assert _starts(followed) == [(0, 1), (5_000, 1)]
        feed.write(10_000)
        feed.note(15_000)
        followed.until_bound(15_000)
        assert _starts(followed) == [(0, 1), (5_000, 1), (10_000, 1)]
        assert followed.bounds == [10_000, 15_000]
        assert followed.dropped == 0


def test_sliding_windows_close_at_the_bound(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 9_999)
    feed.note(10_000)
    loaded = feed.load(spark, operators="windows")
    with Followed(_windows(loaded, "10 seconds", "5 seconds"), checkpoint) as followed:
        followed.until_bound(10_000)
        assert _starts(followed) == [(-5_000, 1), (0, 2)]
        assert followed.dropped == 0


def test_no_operator_drops_an_event_at_exactly_the_bound(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 9_999)
    feed.note(10_000)
    deduplicated = feed.load(spark).dropDuplicates(["key", "event_time"])
    with Followed(deduplicated.select("event_time", "offset"), checkpoint) as followed:
        followed.until_bound(9_999)
        feed.write(10_000)
        feed.note(12_000)
        followed.until_bound(11_999)
        assert sorted(offset for _, offset in followed.rows) == [0, 1, 2]
        assert followed.bounds == [10_000, 12_000]
        assert followed.dropped == 0


def test_an_event_at_exactly_the_end_of_a_session_extends_it(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 9_999)
    feed.note(15_999)
    sessions = (
        feed.load(spark)
        .groupBy("key", F.session_window("event_time", "6 seconds").alias("session"))
        .count()
        .select("session.start", "count")
    )
    with Followed(sessions, checkpoint) as followed:
        followed.until_bound(15_998)
        assert _starts(followed) == []
        feed.write(15_999)
        feed.note(30_000)
        followed.until_bound(29_999)
        assert _starts(followed) == [(4_000, 3)]
        assert followed.dropped == 0


def test_time_advances_without_data_and_behind_filters(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, key="seen")
    feed.write(2_000, key="unseen")
    feed.note(3_000)
    seen = feed.load(spark, operators="windows").where("key = 'seen' AND length(value) > 0")
    with Followed(_windows(seen, "5 seconds"), checkpoint) as followed:
        followed.until_bound(3_000)
        assert _starts(followed) == []
        feed.note(5_000)
        followed.until_bound(5_000)
        assert _starts(followed) == [(0, 1)]
        assert followed.dropped == 0


def test_a_row_below_the_bound_is_flagged_and_handed_over(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    feed.note(10_000)
    rows = feed.load(spark).select("event_time", "late")
    with Followed(rows, checkpoint) as followed:
        followed.until_bound(9_999)
        feed.write(2_000, 11_000, None)
        followed.until(lambda: len(followed.rows) == 4, "all rows")
    assert [late for _, late in followed.rows] == [False, True, False, False]
    assert followed.rows[1][0].replace(tzinfo=UTC) == datetime.fromtimestamp(
        (DAY + 2_000) / 1_000, UTC
    )


def test_the_end_of_a_stream_closes_its_last_windows(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 12_000)
    feed.note(5_000)
    feed.seal()
    loaded = feed.load(spark, operators="windows")
    query = (
        _windows(loaded, "5 seconds")
        .writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .format("memory")
        .queryName("ended")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    found = [(row.start, row["count"]) for row in spark.table("ended").collect()]
    assert sorted(count for _, count in found) == [1, 1]
