"""Spark's watermark is the bound: at the edge of a session, without events, and drained to the end."""

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.feed import DAY, Feed, Followed
from tidegauge_cli.demo.queries import batches_done, events_read


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


def test_a_row_below_the_bound_is_flagged_and_handed_over(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    feed.note(10_000)
    columns = ("late", "late_by", _ms("late_below"))
    rows = feed.load(spark).select("offset", _ms("event_time"), *columns)
    with Followed(rows, checkpoint) as followed:
        followed.until_read(10_000)
        feed.write(2_000, 11_000, None)
        followed.until(lambda: len(followed.rows) == 4, "all rows")
    assert followed.rows == [
        (0, 1_000, False, None, None),
        (1, 2_000, True, 8_000, 10_000),
        (2, 11_000, False, None, 10_000),
        (3, None, False, None, 10_000),
    ]


def test_a_query_that_drains_a_sealed_stream_closes_its_last_windows(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(4_000, 12_000)
    feed.note(5_000)
    feed.seal()
    query = (
        _windows(feed.load(spark, operators="windows"))
        .writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .format("memory")
        .queryName("ended")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(60)
    found = [tuple(row) for row in spark.table("ended").collect()]
    assert sorted(found) == [(0, 1), (10_000, 1)]
    assert query.lastProgress is not None
    dropped = [one["numRowsDroppedByWatermark"] for one in query.lastProgress["stateOperators"]]
    assert dropped == [0]


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
            done = batches_done(followed.query)
            feed.note(end)
            window = (end - 5_000, 1 if end == 5_000 else 2)
            followed.until(lambda: window in followed.rows, f"{window}")  # noqa: B023 (called here)
            (emitted,) = (at for at, rows in followed.batches.items() if window in rows)
            lags.append(emitted - done + 1)
    assert lags == [2, 2, 2]
