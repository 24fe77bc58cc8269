"""Late rows are data: how late, by whose broken promise, and what becomes of them."""

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from reader_client import StreamClient
from spark_source import TidegaugeDataSource, in_open_window, split_late, watermarked
from spark_source.errors import InvalidOptionError
from spark_source.processing import LocalDayWindows
from tests.spark.feed import DAY, Feed, Followed
from writer_client import Writer


def test_the_columns_of_a_row_are_these(spark: SparkSession, feed: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options).load()
    assert [f"{one.name} {one.dataType.simpleString()}" for one in loaded.schema] == [
        "key string",
        "event_time timestamp",
        "value binary",
        "segment bigint",
        "offset bigint",
        "watermark timestamp",
        "late boolean",
        "tick boolean",
        "late_by bigint",
        "late_below timestamp",
        "writer string",
        "append_time timestamp",
    ]
    without_ticks = [name for name in loaded.columns if name != "tick"]
    assert watermarked(loaded).columns == without_ticks


def test_a_row_says_who_appended_it_and_when(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    begun = _now_ms()
    with Writer(feed.url, feed.stream, "sensor-7") as writer:
        writer.write(b"v", key="k", event_time=DAY)
    feed.write(0)  # by nobody
    rows = feed.load(spark).select("offset", "writer", F.unix_millis("append_time"))
    with Followed(rows, checkpoint) as followed:
        followed.until(lambda: len(followed.rows) == 2, "both rows")
    assert [row[:2] for row in followed.rows] == [(0, "sensor-7"), (1, None)]
    first, second = (row[2] for row in followed.rows)
    assert begun <= first <= second <= _now_ms()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


class _Split(Followed):
    """Splits each batch by the source's flag."""

    def _take(self, batch: DataFrame, number: int) -> None:
        halves = [half.drop("late").collect() for half in split_late(batch)]
        self.batches[number] = [(len(half), tuple(map(tuple, half))) for half in halves]

    @property
    def halves(self) -> tuple[list[Any], list[Any]]:
        """All rows on time, and all late ones."""
        on_time = [row for halves in self.batches.values() for row in halves[0][1]]
        return sorted(on_time), sorted(
            row for one in self.batches.values() for row in one[1][1]
        )


def _write(writer: Writer, *times: int) -> None:
    for one in times:
        writer.write(b"v", key="k", event_time=DAY + one)
    writer.flush()


def test_every_row_is_on_time_or_late_and_a_broken_promise_has_a_name(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    names = ["honest", "dishonest", "expired", "restarted"]
    rows = feed.load(spark, name="source").select(
        "writer", F.unix_millis("event_time") - DAY, "late_by", "late"
    )
    with ExitStack() as stack:
        writers = {one: Writer(feed.url, feed.stream, one) for one in names}
        for writer in writers.values():
            stack.callback(writer.close)
            _write(writer, 1_000)
        for writer in writers.values():
            writer.note_time(DAY + 5_000)
            writer.flush()
        split = stack.enter_context(_Split(rows, checkpoint))
        split.until_read(5_000)
        writers["restarted"].close()
        writers["restarted"] = Writer(feed.url, feed.stream, "restarted")
        stack.callback(writers["restarted"].close)
        for name in ("honest", "dishonest", "restarted"):
            _write(writers[name], 6_000)
            writers[name].note_time(DAY + 10_000)
            writers[name].flush()
        with StreamClient(feed.url, feed.stream) as client:
            client.expire("expired")
        split.until_read(10_000)
        _write(writers["dishonest"], 6_500, 9_999)
        _write(writers["expired"], 5_500)
        _write(writers["honest"], 10_000)
        _write(writers["restarted"], 12_000)
        split.until(lambda: sum(map(len, split.halves)) == 12, "all rows")
        split.query.processAllAvailable()
        on_time, late = split.halves
        observed = _observed(split)
        counts = [(one["rows"], one["late"]) for one in observed if one["late"]]
    assert on_time == [
        ("dishonest", 1_000, None),
        ("dishonest", 6_000, None),
        ("expired", 1_000, None),
        ("honest", 1_000, None),
        ("honest", 6_000, None),
        ("honest", 10_000, None),
        ("restarted", 1_000, None),
        ("restarted", 6_000, None),
        ("restarted", 12_000, None),
    ]
    assert late == [
        ("dishonest", 6_500, 3_500),
        ("dishonest", 9_999, 1),
        ("expired", 5_500, 4_500),
    ]
    assert sum(late for _, late in counts) == 3
    assert max(one["late_by"] or 0 for one in observed) == 4_500
    by_writer = [count for one in observed for count in one["late_writers"].items()]
    assert _sums(by_writer) == {"dishonest": 2, "expired": 1}


def _observed(followed: Followed) -> list[Any]:
    """List what was observed of the batches; while idle nothing is."""
    found = [one["observedMetrics"].get("source") for one in followed.query.recentProgress]
    return [one for one in found if one is not None]


def _sums(counts: list[tuple[str, int]]) -> dict[str, int]:
    return {name: sum(n for one, n in counts if one == name) for name, _ in counts}


def test_late_rows_of_nobody_are_counted_without_a_name(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.note(10_000)
    with Followed(feed.load(spark, name="source"), checkpoint) as followed:
        followed.until_read(10_000)
        feed.write(4_000)
        followed.until(lambda: len(followed.rows) == 1, "the row")
        followed.query.processAllAvailable()
        observed = _observed(followed)
    assert [one["late_writers"] for one in observed if one["late"]] == [{"": 1}]


def test_sparks_own_windows_are_exact_with_the_late_rows_whose_window_is_open(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    _break_promises(feed)
    kept = in_open_window(_replayed(spark, feed), "5 seconds")
    window = F.window("event_time", "5 seconds")
    assert _counts(kept, window, checkpoint) == [(0, 2), (5_000, 2), (10_000, 1)]


def test_windows_with_an_offset_and_sliding_ones_are_exact_too(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    _break_promises(feed)
    shifted = in_open_window(_replayed(spark, feed), "5 seconds", offset="1 second")
    window = F.window("event_time", "5 seconds", startTime="1 second")
    assert _counts(shifted, window, checkpoint) == [(1_000, 3), (6_000, 2), (11_000, 1)]
    sliding = F.window("event_time", "10 seconds", "5 seconds")
    placed = _replayed(spark, feed).select("*", sliding)
    kept = placed.where("NOT late OR window.end > late_below")
    assert _counts(kept, F.col("window"), checkpoint + "-sliding") == [
        (-5_000, 2),
        (0, 5),
        (5_000, 3),
        (10_000, 1),
    ]


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
            ends = [LocalDayWindows(days, zone).window_of(each)[1] for each in times]
            df = spark.createDataFrame(list(zip(times, ends, strict=True)), "t long, end long")
            rows = df.selectExpr(
                f"concat('{zone} ', {days}, ' ', t) AS name",
                "timestamp_millis(t) AS event_time",
                "explode(array(true, false)) AS open",
                "timestamp_millis(end - int(open)) AS late_below",
                "true AS late",
            )
            kept.append(in_open_window(rows, timedelta(days=days), zone=zone))
            expected += [(f"{zone} {days} {each}", True) for each in times]
    found = reduce(DataFrame.union, kept).select("name", "open").collect()
    assert sorted(map(tuple, found)) == sorted(expected)


def test_a_window_without_length_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidOptionError, match="option 'size': '0 seconds' is not above 0"):
        in_open_window(spark.range(1).toDF("event_time"), "0 seconds")


def _break_promises(feed: Feed) -> None:
    """Write a row late for its window, and one below the bound whose window is open."""
    feed.write(1_000, 4_000)
    feed.note(5_000)
    feed.write(2_000, 6_000)
    feed.note(7_000)
    feed.write(6_500, 11_000)
    feed.seal()


def _replayed(spark: SparkSession, feed: Feed) -> DataFrame:
    """Load it mark by mark."""
    paces = {"admission": "marks", "maxEventTimePerTrigger": "1 second"}
    return feed.load(spark, operators="windows", **paces)


def _counts(df: DataFrame, window: Column, checkpoint: str) -> list[tuple[Any, ...]]:
    counts = df.groupBy(window.alias("window")).count()
    with Followed(
        counts.select(F.unix_millis("window.start") - DAY, "count"), checkpoint
    ) as followed:
        followed.until(lambda: len(followed.rows) >= 3, "the windows")
        followed.query.processAllAvailable()
        assert followed.dropped == 0
        return sorted(followed.rows)
