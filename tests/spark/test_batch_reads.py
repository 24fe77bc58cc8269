"""What was read live and what is replayed later give the same results."""

import random
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource
from tests.spark.feed import DAY, Feed, Followed

REPLAYS = {
    "by event time": {"maxEventTimePerTrigger": "3 seconds", "admission": "marks"},
    "by rows": {"maxRowsPerTrigger": "17"},
    "at once": {"maxRowsPerTrigger": "none"},
}
_KEYS = [f"key-{number}" for number in range(12)]


def _windows(df: DataFrame) -> DataFrame:
    counted = df.groupBy(F.window("event_time", "4 seconds")).count()
    return counted.select((F.unix_millis("window.start") - DAY).alias("start"), "count")


@pytest.fixture
def wide_feed(feed: Feed) -> Feed:
    wide = Feed(feed.url, feed.stream + "-wide")
    wide.create(segments=3)
    return wide


def _write_second(feed: Feed, second: int, chance: random.Random) -> list[int]:
    """Write in disorder what belongs into a second or up to two later, and note the second."""
    times = [second * 1_000 + chance.randrange(3_000) for _ in range(20)]
    for time in times:
        feed.write(time, key=chance.choice(_KEYS))
    feed.note((second + 1) * 1_000)
    return times


def _expected(times: list[int]) -> dict[int, int]:
    starts = [time // 4_000 * 4_000 for time in times]
    return {start: starts.count(start) for start in starts}


def test_a_backfill_gives_what_the_live_query_gave(
    spark: SparkSession, wide_feed: Feed, tmp_path: Path
) -> None:
    chance, times = random.Random(7), list[int]()
    with wide_feed as feed:
        live = _windows(feed.load(spark, operators="windows"))
        with Followed(live, str(tmp_path / "live")) as followed:
            for second in range(8):
                times += _write_second(feed, second, chance)
                if second % 3 == 2:
                    followed.until_bound((second + 1) * 1_000)
            feed.seal()
            expected = sorted(_expected(times).items())
            followed.until(lambda: sorted(followed.rows) == expected, "the live windows")
            assert followed.dropped == 0
        for name, options in REPLAYS.items():
            again = _windows(feed.load(spark, operators="windows", **options))
            with Followed(again, str(tmp_path / name)) as replayed:
                _wait_for_rows(replayed, len(expected))
                assert (name, sorted(replayed.rows)) == (name, expected)
                assert replayed.dropped == 0


def _wait_for_rows(replayed: Followed, count: int) -> None:
    replayed.until(lambda: len(replayed.rows) == count, "the same windows")


def _batch(spark: SparkSession, feed: Feed, **options: str) -> list[Row]:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.read.format("tidegauge").options(**feed.options, **options).load()
    columns = ("offset", "late", "late_by", "late_below", "watermark", "tick")
    return loaded.select(*columns).orderBy("offset").collect()


def test_a_batch_read_of_a_slice_of_time_has_its_rows_and_says_what_was_late(
    spark: SparkSession, feed: Feed
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    feed.write(2_500, 3_000, 4_500)
    feed.note(5_000)
    assert _batch(spark, feed) == [
        (0, False, None, None, None, False),
        (1, False, None, None, None, False),
        (2, True, 500, None, None, False),
        (3, False, None, None, None, False),
        (4, False, None, None, None, False),
    ]
    times = {"startingTime": str(DAY + 2_000), "endingTime": str(DAY + 4_000)}
    assert [row.offset for row in _batch(spark, feed, **times)] == [1, 2, 3]
    assert [row.offset for row in _batch(spark, feed, startingCut="0:3")] == [3, 4]
    assert [row.offset for row in _batch(spark, feed, endingCut="0:2")] == [0, 1]
    assert _batch(spark, feed, startingOffsets="latest") == []


def test_a_slice_that_is_not_complete_yet_is_refused_unless_allowed(
    spark: SparkSession, feed: Feed
) -> None:
    feed.write(1_000, 2_000)
    feed.note(1_500)
    wanted = {"endingTime": str(DAY + 2_000)}
    with pytest.raises(Exception, match="not_complete_yet"):
        _batch(spark, feed, **wanted)
    allowed = _batch(spark, feed, **wanted, allowIncomplete="true")
    assert [row.offset for row in allowed] == [0]
