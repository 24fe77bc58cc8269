"""One story for every stateful operator: an event at exactly the bound is an honest one."""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial, reduce
from typing import Any, NamedTuple, TypeAlias

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from tests.spark.feed import DAY, Feed, Followed

Load = Callable[..., DataFrame]
"""Loads a feed with a watermark: the real way, or with a seeded bug."""

Rows: TypeAlias = list[tuple[Any, ...]]


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


def tumbling_past_the_bound(load: Load) -> DataFrame:
    """Count in windows that end 1 ms after 5 s, 10 s, and so on."""
    window = F.window("event_time", "5 seconds", startTime="1 millisecond")
    return load().groupBy(window).count().select(_start(), "count")


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


def semi_join(load: Load) -> DataFrame:
    """Keep distinct rows that have a partner: Spark pushes such a join below projections."""
    left = load().selectExpr("event_time AS at", "value", "offset")
    right = load().selectExpr("event_time AS bt", "value AS other")
    near = F.expr("value = other AND bt > at AND bt <= at + INTERVAL 5 SECONDS")
    return left.join(right, near, "left_semi").distinct().select("offset")


def process_function(load: Load) -> DataFrame:
    keyed = load().select("key", "event_time").groupBy("key")
    return keyed.transformWithState(
        CountUntilTimer(),
        outputStructType="due LONG, count LONG",
        outputMode="append",
        timeMode="EventTime",
    )


def filtered_everywhere(load: Load) -> DataFrame:
    """Count windows of windows, with filters below, between and above."""
    seen = load().where("value = 'v'").select("event_time", "late").where("NOT late")
    counted = seen.where("event_time > TIMESTAMP '1970-01-02'").groupBy(_five_seconds()).count()
    again = counted.where("count > 0").groupBy(F.window(F.window_time("window"), "10 seconds"))
    return again.agg(F.sum("count").alias("count")).where("count < 9").select(_start(), "count")


def filtered_out(load: Load) -> DataFrame:
    return _windows(load().where("key = 'nobody'"), "5 seconds")


def _five_seconds() -> Column:
    return F.window("event_time", "5 seconds")


def _windows(df: DataFrame, size: str, slide: str | None = None) -> DataFrame:
    return df.groupBy(F.window("event_time", size, slide)).count().select(_start(), "count")


def _start() -> Column:
    return (F.unix_millis("window.start") - DAY).alias("start")


def _joined(load: Load, how: str) -> DataFrame:
    left = load().selectExpr("event_time AS at", "value", "offset")
    right = load().selectExpr("event_time AS bt", "value", "offset AS other")
    near = F.expr("a.value = b.value AND bt > at AND bt <= at + INTERVAL 5 SECONDS")
    return left.alias("a").join(right.alias("b"), near, how).select("offset", "other")


class Story(NamedTuple):
    """What an operator says when it is driven exactly."""

    query: Callable[[Load], DataFrame]
    operators: str
    """The option of `read_stream`."""
    early: Rows
    """What is out once the bound is 10 s."""
    late: Rows
    """What comes until the bound is 30 s."""


class Told(NamedTuple):
    """What was seen of stories that one query told; bounds and watermarks without repetitions."""

    early: dict[str, Rows]
    """What came out until the bound was 10 s, by story."""
    late: dict[str, Rows]
    """What came out from then on."""
    bounds: list[int | None]
    watermarks: list[int]
    dropped: int
    """How many rows Spark dropped as late."""
    held: int
    """How many rows are in its state in the end."""


_WATERMARKS = {
    "any": [0, 9_999, 19_999, 29_999],
    "windows": [0, 10_000, 20_000, 30_000],
}

STORIES = {
    "tumbling, any": Story(tumbling, "any", [(0, 1)], [(5_000, 1), (10_000, 1)]),
    "tumbling, windows": Story(tumbling, "windows", [(0, 1), (5_000, 1)], [(10_000, 1)]),
    "tumbling past the bound, windows": Story(
        tumbling_past_the_bound, "windows", [(1, 1)], [(5_001, 2)]
    ),
    "sliding, any": Story(sliding, "any", [(-5_000, 1)], [(0, 2), (5_000, 2), (10_000, 1)]),
    "sliding, windows": Story(
        sliding, "windows", [(-5_000, 1), (0, 2)], [(5_000, 2), (10_000, 1)]
    ),
    "session": Story(session, "any", [], [(4_000, 3)]),
    "dropDuplicates": Story(deduplicated, "any", [(0,), (1,)], [(2,)]),
    "dropDuplicatesWithinWatermark": Story(deduplicated_within, "any", [(0,)], [(2,)]),
    "inner join": Story(inner_join, "any", [], [(1, 2)]),
    "semi join": Story(semi_join, "any", [], [(1,)]),
    "outer join": Story(outer_join, "any", [(0, None)], [(1, 2), (2, None)]),
    "transformWithState": Story(process_function, "any", [(9_000, 2)], [(15_000, 1)]),
    "filters everywhere": Story(filtered_everywhere, "windows", [(0, 2)], [(10_000, 1)]),
    "a filter that nothing passes": Story(filtered_out, "windows", [], []),
}


def of_operators(name: str) -> list[str]:
    """Name the stories that one query can tell: its watermark is that of all of them."""
    return [story for story in STORIES if STORIES[story].operators == name]


def expected(names: Sequence[str]) -> Told:
    """Return what is seen of stories if the bound drives them."""
    stories = {name: STORIES[name] for name in names}
    return Told(
        early={name: sorted(story.early, key=str) for name, story in stories.items()},
        late={name: sorted(story.late, key=str) for name, story in stories.items()},
        bounds=[10_000, 20_000, 30_000],
        watermarks=_WATERMARKS[STORIES[names[0]].operators],
        dropped=0,
        held=0,
    )


def tell(feed: Feed, names: Sequence[str], load: Load, checkpoint: str) -> Told:
    """Tell stories by one query: up to a bound of 10 s and an event at it; time alone reaches 30 s."""
    feed.write(4_000, 9_999)
    feed.note(10_000)
    with Followed(united(names, load), checkpoint) as query:
        query.until_read(10_000)
        early = query.rows
        feed.write(10_000)
        for bound in (20_000, 30_000):
            feed.note(bound)
            query.until_read(bound)
        return Told(
            early=_by_story(names, early),
            late=_by_story(names, query.rows[len(early) :]),
            bounds=query.bounds,
            watermarks=query.watermarks,
            dropped=query.dropped,
            held=query.held,
        )


def united(names: Sequence[str], load: Load) -> DataFrame:
    """Unite the queries of stories, which read one load where each needs it once."""
    loads = dict[tuple[tuple[str, Any], ...], DataFrame]()

    def once(**options: Any) -> DataFrame:
        key = tuple(options.items())
        if key not in loads:
            loads[key] = load(**options)
        return loads[key]

    operators = STORIES[names[0]].operators
    frames = [STORIES[name].query(partial(once, operators=operators)) for name in names]
    return reduce(DataFrame.union, map(_tagged, names, frames))


def _tagged(name: str, df: DataFrame) -> DataFrame:
    return df.select(
        F.lit(name), F.array(*(F.col(column).cast("long") for column in df.columns))
    )


def _by_story(names: Sequence[str], rows: Rows) -> dict[str, Rows]:
    return {
        name: sorted((tuple(values) for story, values in rows if story == name), key=str)
        for name in names
    }
