"""Spark's watermark is the bound: at the edge of a session, without events, and drained to the end."""

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from examples.flights.queries import events_read
from tests.spark.feed import DAY, Feed, Followed

pytestmark = pytest.mark.every_spark


def _windows(df: DataFrame) -> DataFrame:
    counted = df.groupBy(F.window("event_time", "5 seconds")).count()
    return counted.select(_ms("window.start"), "count")


def _ms(column: str) -> Column:
    """Bring a time to ms, less a day."""
    return F.unix_millis(column) - DAY


def test_an_event_at_exactly_the_end_of_a_session_extends_it(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 9_999)
    feed.note(15_999)
    sessions = feed.load(spark).groupBy("key", F.session_window("event_time", "6 seconds"))
    counted = sessions.count().select(_ms("session_window.start"), "count")
    with Followed(counted, checkpoint) as followed:
        followed.until_read(15_999)
        assert followed.rows == []
        feed.write(15_999)
        feed.note(30_000)
        followed.until_read(30_000)
        assert followed.rows == [(4_000, 3)]
        assert followed.watermarks == [0, 15_998, 29_999]
        assert followed.dropped == 0


def test_time_advances_before_the_first_event_and_without_events(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    with Followed(_windows(feed.load(spark, operators="windows")), checkpoint) as followed:
        followed.until_read(None)
        feed.note(3_000)
        followed.until_read(3_000)
        assert followed.watermarks == [0, 3_000]
        feed.write(3_000)
        feed.note(4_000)
        followed.until_read(4_000)
        assert followed.rows == []
        feed.note(5_000)
        followed.until_read(5_000)
        assert followed.rows == [(0, 1)]
        feed.note(9_000)
        followed.until_read(9_000)
        assert followed.watermarks == [0, 3_000, 4_000, 5_000, 9_000]
        assert followed.dropped == 0


def test_a_window_comes_within_two_batches_of_the_note_that_decides_it(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    lags = list[int]()
    with Followed(_windows(feed.load(spark, operators="windows")), checkpoint) as followed:
        for end in (5_000, 10_000, 15_000):
            feed.write(end - 1_000, end)
            written = 2 * end // 5_000
            followed.until(lambda: events_read(followed.query) == written, "the events")  # noqa: B023 (called here)
            followed.query.processAllAvailable()
            done = len(followed.batches)
            feed.note(end)
            window = (end - 5_000, 1 if end == 5_000 else 2)
            followed.until(lambda: window in followed.rows, f"{window}")  # noqa: B023 (called here)
            (emitted,) = (at for at, rows in followed.batches.items() if window in rows)
            lags.append(emitted - done + 1)
    assert lags == [2, 2, 2]
