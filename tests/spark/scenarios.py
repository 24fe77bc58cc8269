"""One story for every stateful operator: an event at exactly the bound is an honest one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.spark.feed import DAY, Feed, Followed

Load = Callable[..., DataFrame]
"""Loads a feed with a watermark: the real way, or with a seeded bug."""


class CountUntilTimer(StatefulProcessor):
    """Counts the events of a key, and tells the count 5 s of event time after the first."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "count LONG")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        times = [round(row.event_time.timestamp() * 1_000) for row in rows]
        before = self._count.get()
        if before is None:
            self._handle.registerTimer(min(times) + 5_000)
        self._count.update(((before[0] if before else 0) + len(times),))
        return iter(())

    def handleExpiredTimer(
        self, key: Any, timerValues: Any, expiredTimerInfo: Any
    ) -> Iterator[Row]:
        count = self._count.get()
        due = expiredTimerInfo.getExpiryTimeInMs() - DAY
        yield Row(due=due, count=count[0] if count else 0)
        self._count.clear()

    def close(self) -> None:
        pass


def tumbling(load: Load) -> DataFrame:
    return _windows(load(), "5 seconds")


def sliding(load: Load) -> DataFrame:
    return _windows(load(), "10 seconds", "5 seconds")


def session(load: Load) -> DataFrame:
    grouped = load().groupBy("key", F.session_window("event_time", "6 seconds").alias("window"))
    return grouped.count().select(_start(), "count")


def deduplicated(load: Load) -> DataFrame:
    return load().dropDuplicates(["value", "event_time"]).select("offset")


def deduplicated_within(load: Load) -> DataFrame:
    horizon = timedelta(seconds=5)
    within = load(dedup_horizon=horizon).dropDuplicatesWithinWatermark(["value"])
    return within.select("offset")


def inner_join(load: Load) -> DataFrame:
    return _joined(load, "inner")


def outer_join(load: Load) -> DataFrame:
    return _joined(load, "left")


def process_function(load: Load) -> DataFrame:
    keyed = load().select("key", "event_time").groupBy("key")
    return keyed.transformWithState(
        CountUntilTimer(),
        outputStructType="due LONG, count LONG",
        outputMode="append",
        timeMode="EventTime",
    )


def _windows(df: DataFrame, size: str, slide: str | None = None) -> DataFrame:
    return df.groupBy(F.window("event_time", size, slide)).count().select(_start(), "count")


def _start() -> Column:
    return (F.unix_millis("window.start") - DAY).alias("start")


def _joined(load: Load, how: str) -> DataFrame:
    left = load().selectExpr("event_time AS at", "value", "offset")
    right = load().selectExpr("event_time AS bt", "value", "offset AS other")
    near = F.expr("a.value = b.value AND bt > at AND bt <= at + INTERVAL 5 SECONDS")
    return left.alias("a").join(right.alias("b"), near, how).select("offset", "other")


@dataclass(frozen=True)
class Story:
    """What an operator says when it is driven exactly.

    Attributes
    ----------
    query
        Of the operator.
    operators
        The option of `read_stream`.
    early
        What is out once the bound is 10 s.
    late
        What comes until the bound is 30 s.
    """

    query: Callable[[Load], DataFrame]
    operators: str
    early: list[tuple[int | None, ...]]
    late: list[tuple[int | None, ...]]


STORIES = {
    "tumbling, any": Story(tumbling, "any", [(0, 1)], [(5_000, 1), (10_000, 1)]),
    "tumbling, windows": Story(tumbling, "windows", [(0, 1), (5_000, 1)], [(10_000, 1)]),
    "sliding, any": Story(sliding, "any", [(-5_000, 1)], [(0, 2), (5_000, 2), (10_000, 1)]),
    "sliding, windows": Story(
        sliding, "windows", [(-5_000, 1), (0, 2)], [(5_000, 2), (10_000, 1)]
    ),
    "session": Story(session, "any", [], [(4_000, 3)]),
    "dropDuplicates": Story(deduplicated, "any", [(0,), (1,)], [(2,)]),
    "dropDuplicatesWithinWatermark": Story(deduplicated_within, "any", [(0,)], [(2,)]),
    "inner join": Story(inner_join, "any", [], [(1, 2)]),
    "outer join": Story(outer_join, "any", [(0, None)], [(1, 2), (2, None)]),
    "transformWithState": Story(process_function, "any", [(9_000, 2)], [(15_000, 1)]),
}


def tell(feed: Feed, followed: Followed) -> Iterator[list[tuple[int | None, ...]]]:
    """Write up to a bound of 10 s and an event at exactly it; let time alone reach 30 s.

    Yields what came out at 10 s and at 30 s.
    """
    followed.until_read(10_000)
    yield sorted(followed.rows, key=str)
    feed.write(10_000)
    feed.note(20_000)
    followed.until_read(20_000)
    feed.note(30_000)
    followed.until_read(30_000)
    yield sorted(followed.rows, key=str)


def replay(feed: Feed, load: Load, checkpoint: str) -> list[tuple[int, int]]:
    """Read one event, lose all commits, write another, and read on from the checkpoint.

    Returns the offset and the watermark of every row that the second run handed over.
    """
    feed.write(1_000)
    feed.note(2_000)
    with Followed(_offsets(load), checkpoint) as first:
        first.until_read(2_000)
    for path in Path(checkpoint, "commits").glob("*"):
        path.unlink()
    for path in Path(checkpoint, "offsets").glob("*"):
        if path.name.strip(".").split(".")[0] != "0":
            path.unlink()
    feed.write(3_000)
    feed.note(4_000)
    with Followed(_offsets(load), checkpoint) as second:
        second.until_read(4_000)
    return second.rows


def _offsets(load: Load) -> DataFrame:
    return load().select("offset", (F.unix_millis("watermark") - DAY).alias("watermark"))
