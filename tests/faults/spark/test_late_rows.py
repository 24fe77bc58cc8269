"""Late rows are data: Spark's own windows keep those whose window is open, and no others."""

from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import in_open_window, split_late
from spark_source.errors import InvalidOptionError
from spark_source.processing import LocalDayWindows
from tests.spark.feed import DAY, Feed, Followed


def test_sparks_own_windows_are_exact_with_the_late_rows_whose_window_is_open(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    """Tumbling ones, those with an offset, and sliding ones; read mark by mark."""
    feed.write(1_000, 4_000)
    feed.note(5_000)
    feed.write(2_000, 6_000)  # a row late for its window
    feed.note(7_000)
    feed.write(6_500, 11_000)  # a row below the bound, whose window is open
    feed.seal()
    pace: dict[str, Any] = {"admission": "marks", "maxEventTimePerTrigger": "1 second"}
    df = feed.load(spark, operators="windows", **pace)
    shifted = in_open_window(df, "5 seconds", offset="1 second")
    sliding = df.select("*", F.window("event_time", "10 seconds", "5 seconds"))
    on_time, late = split_late(df)
    frames = [
        _counts(
            in_open_window(df, "5 seconds"), F.window("event_time", "5 seconds"), "tumbling"
        ),
        _counts(shifted, F.window("event_time", "5 seconds", startTime="1 second"), "shifted"),
        _counts(
            sliding.where("NOT late OR window.end > late_below"), F.col("window"), "sliding"
        ),
        on_time.select(F.lit("on time"), "offset", F.lit(0)),
        late.select(F.lit("late"), "offset", "late_by"),
    ]
    with Followed(reduce(DataFrame.union, frames), checkpoint) as followed:
        followed.until_end()
        assert followed.dropped == 0
    outputs: dict[str, list[Any]] = {}
    for name, *row in sorted(followed.rows):
        outputs.setdefault(name, []).append(tuple(row))
    assert outputs == {
        "tumbling": [(0, 2), (5_000, 2), (10_000, 1)],
        "shifted": [(1_000, 3), (6_000, 2), (11_000, 1)],
        "sliding": [(-5_000, 2), (0, 5), (5_000, 3), (10_000, 1)],
        "on time": [(0, 0), (1, 0), (3, 0), (5, 0)],
        "late": [(2, 3_000), (4, 500)],
    }


def _counts(df: DataFrame, window: Column, name: str) -> DataFrame:
    counts = df.groupBy(window.alias("window")).count()
    return counts.select(F.lit(name), F.unix_millis("window.start") - DAY, "count")


_SWITCHES = {
    "Europe/Paris": (2024, 3, 31),
    "America/Sao_Paulo": (2018, 11, 4),  # the day begins at 01:00
    "America/St_Johns": (2006, 10, 29),  # at 00:01 clocks go back by an hour
    "Antarctica/Vostok": (1994, 2, 1),  # at midnight they go back by seven
    "Pacific/Apia": (2011, 12, 30),  # there is no such day
}


def test_late_rows_are_kept_until_their_local_days_end(spark: SparkSession) -> None:
    kept, expected = [], []
    for zone, switch in _SWITCHES.items():
        first = int(datetime(*switch, tzinfo=UTC).timestamp()) * 1_000 - 3 * 86_400_000
        times = range(first + 10, first + 6 * 86_400_000, 1_800_000)
        for days in (1, 7):
            ends = [LocalDayWindows(days, zone).window_of(at)[1] for at in times]
            df = spark.createDataFrame(list(zip(times, ends, strict=True)), "t long, end long")
            rows = df.selectExpr(
                f"concat('{zone} ', {days}, ' ', t) AS name",
                "timestamp_millis(t) AS event_time",
                "explode(array(true, false)) AS open",
                "timestamp_millis(end - int(open)) AS late_below",
                "true AS late",
            )
            kept.append(in_open_window(rows, timedelta(days=days), zone=zone))
            expected += [(f"{zone} {days} {at}", True) for at in times]
    found = reduce(DataFrame.union, kept).select("name", "open").collect()
    assert sorted(map(tuple, found)) == sorted(expected)


def test_a_window_without_length_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOptionError, match="option 'size': '0 seconds' is not above 0"):
        in_open_window(spark.range(1).toDF("event_time"), "0 seconds")
