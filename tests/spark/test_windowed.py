"""Windows with allowed lateness on Spark, against the operator that knows no Spark."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import windowed
from spark_source.errors import InvalidOptionError, MissingColumnError
from spark_source.processing import (
    SessionWindows,
    SlidingWindows,
    WindowSettings,
    aggregates,
    count,
    mean,
    tumbling,
)
from spark_source.processing.keys import Row
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.restarts import crashed
from tests.window_model import Firing, WindowModel
from tidegauge.event_time import END_OF_TIME

Rows: TypeAlias = tuple[list[Row], list[Row]]
"""Firings, and late rows."""

Script: TypeAlias = list[tuple[dict[str, list[int]], int]]
"""Times of rows by their keys, and the time noted after them."""

AGGREGATES = {
    "n": count(),
    "total": aggregates.sum("number"),
    "least": aggregates.min("number"),
    "mean": mean("number"),
}

TUMBLING: Script = [
    ({"a": [500], "b": [700]}, 1_501),
    ({"a": [1_300]}, 2_301),
    ({"a": [1_997], "b": [4_000]}, 6_001),
    ({"a": [1_998]}, 6_500),
]
SLIDING: Script = [
    ({"k2": [1_000]}, 2_000),
    ({"k2": [2_000]}, 3_001),
    ({"k2": [2_400, 2_400], "k1": [-900]}, 5_000),
]
SESSIONS: Script = [
    ({"a": [1_000]}, 2_000),
    ({"a": [2_500]}, 4_999),
    ({"a": [4_500, 8_500]}, 7_401),
    ({"a": [7_000]}, 11_502),
    ({"a": [11_600]}, 14_601),
    ({"a": [10_000], "b": [1_000]}, 40_000),
    ({"a": [10_100]}, 40_001),
]


@dataclass(frozen=True)
class Story:
    settings: WindowSettings
    script: Script


def settings(assigner: Any, **changes: Any) -> WindowSettings:
    return WindowSettings(
        assigner=assigner, aggregates=AGGREGATES, columns=["number"], **changes
    )


STORIES = {
    "tumbling, lateness, retractions": Story(
        settings(
            SlidingWindows(2_000, 2_000),
            lateness_ms=500,
            accumulation="accumulating_and_retracting",
        ),
        TUMBLING,
    ),
    "sliding, early, discarding": Story(
        settings(SlidingWindows(3_000, 1_000), trigger="early", accumulation="discarding"),
        SLIDING,
    ),
    "sessions, lateness, retractions": Story(
        settings(
            SessionWindows(3_000),
            lateness_ms=10_000,
            accumulation="accumulating_and_retracting",
        ),
        SESSIONS,
    ),
}


@pytest.mark.every_spark
@pytest.mark.parametrize(
    "name",
    [
        "sessions, lateness, retractions",
        pytest.param("sliding, early, discarding", marks=pytest.mark.soak),
    ],
)
def test_windows_say_what_the_operator_says(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str
) -> None:
    story = STORIES[name]
    with start(feed.load(spark, admission="marks"), story.settings, checkpoint) as followed:
        play(feed, followed, story.script)
        told = in_order(followed.rows)
        counted = {name: counts_of(followed, name) for name in ("late", "partially_late")}
    expected = expected_of(story)
    assert told == expected.rows
    assert counted == expected.counts


def test_a_batch_that_runs_again_after_a_crash_says_the_same_which_is_what_the_operator_says(
    spark: SparkSession, feed: Feed, checkpoint: str, tmp_path: Path
) -> None:
    story = STORIES["tumbling, lateness, retractions"]
    df = feed.load(spark, admission="marks")
    with start(df, story.settings, checkpoint) as followed:
        play(feed, followed, story.script)
    assert in_order(followed.rows) == expected_of(story).rows
    _, noted = story.script[-1]
    corrections = [
        number
        for number, rows in followed.batches.items()
        if any(row[0] == "late" or row[4] == "retraction" for row in rows)
    ]
    assert len(corrections) == 2
    for batch in corrections:
        folder = tmp_path / f"batch {batch}"
        folder.mkdir()
        again = crashed(checkpoint, folder, batch, committed=False)
        with shuffling(spark, "3"), start(df, story.settings, again) as restarted:
            restarted.until_read(noted)
        # What follows may come in fewer batches now, with other rows late.
        assert restarted.batches[batch] == followed.batches[batch]


def test_a_query_goes_on_with_the_buckets_it_began_with_and_no_others(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    story = STORIES["tumbling, lateness, retractions"]
    df = feed.load(spark, admission="marks")
    with start(df, story.settings, checkpoint, buckets=32) as followed:
        play(feed, followed, story.script[:2])
    words = "was saved with buckets = 32, and the query has 'the default, 2'; set it back"
    with (
        start(df, story.settings, checkpoint) as refused,
        pytest.raises(StreamingQueryException, match=words),
    ):
        play(feed, refused, story.script[2:3])
    with start(df, story.settings, checkpoint, buckets=32) as restarted:
        restarted.until_read(story.script[2][1])
        play(feed, restarted, story.script[3:])
    assert in_order([*followed.rows, *restarted.rows]) == expected_of(story).rows


def test_every_row_is_in_a_window_or_late_and_the_end_of_time_leaves_nothing(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    discarding = settings(SlidingWindows(2_000, 2_000), accumulation="discarding")
    with start(feed.load(spark), discarding, checkpoint) as followed:
        feed.write(100, 2_500, 900, 5_000)
        feed.note(4_000)
        followed.until_read(4_000)
        feed.write(3_999, 4_000, 10_000)
        feed.seal()
        followed.until_read(END_OF_TIME - DAY)
        firings, late = in_order(followed.rows)
        assert sum(row[6] for row in firings) + len(late) == 7
        assert late == [("k", 3_999, 4, 1)]
        assert counts_of(followed, "late") == 1
        assert last_count_of(followed, "windows") == 0


class Distinct:
    """An aggregate of a user's."""

    column = "number"
    output = "array<bigint>"

    def zero(self) -> frozenset[int]:
        return frozenset()

    def add(self, accumulator: frozenset[int], value: int) -> frozenset[int]:
        return accumulator | {value % 2}

    def merge(self, left: frozenset[int], right: frozenset[int]) -> frozenset[int]:
        return left | right

    def result(self, accumulator: frozenset[int]) -> list[int]:
        return sorted(accumulator)


class Untyped(Distinct):
    column = "offset"
    output = None  # type: ignore[assignment]


def test_what_is_there_is_read_at_once_and_windows_are_those_of_spark(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(100, 2_500, 900, 5_000)
    feed.seal()
    remainders = windowed(
        numbered(feed.load(spark)).withColumn("of.writer", F.col("writer")),
        tumbling("2 seconds"),
        key="of.writer",
        aggregates={"remainders": Distinct(), "latest": aggregates.max("event_time")},
        allowed_lateness="30 days",
    ).output()
    assert remainders.columns == [
        *("of.writer", "window", "remainders", "latest", "kind", "pane", "pane_index")
    ]
    rows = remainders.select(
        "`of.writer`",
        F.unix_millis(F.window_time("window")) - DAY,
        "remainders",
        F.unix_millis("latest") - DAY,
        "pane",
    )
    found = list[Row]()
    query = (
        rows.writeStream.foreachBatch(lambda batch, _: found.extend(batch.collect()))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert [tuple(row) for row in found] == [
        (None, 1_999, [0], 900, "on_time"),
        (None, 3_999, [1], 2_500, "on_time"),
        (None, 5_999, [1], 5_000, "on_time"),
    ]


def test_state_of_other_aggregates_is_refused(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    df = feed.load(spark)
    tumbling_windows = settings(SlidingWindows(2_000, 2_000))
    feed.write(100)
    feed.note(200)
    with start(df, tumbling_windows, checkpoint) as followed:
        followed.until_read(200)
    other = replace(tumbling_windows, aggregates=AGGREGATES | {"least": mean("number")})
    feed.note(4_000)
    with (
        start(df, other, checkpoint) as followed,
        pytest.raises(StreamingQueryException, match="the state was saved with aggregates ="),
    ):
        followed.until_read(4_000)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"aggregates": {}}, "'aggregates': there are none"),
        ({"aggregates": {"pane": count()}}, "another column 'pane'"),
        ({"key": "segment"}, "'key': the output has another column 'segment'"),
        ({"key": "nothing"}, "no column 'nothing'"),
        ({"aggregates": {"m": mean("nothing")}}, "no column 'nothing'"),
        (
            {"aggregates": {"m": mean("key")}},
            "'m' is the mean of column 'key', which is string",
        ),
        ({"allowed_lateness": "soon"}, "'soon' is not a duration"),
        ({"accumulation": "some"}, "'some' is not one of accumulating,"),
        ({"aggregates": {"own": Untyped()}}, "'own' does not say its type"),
        ({"buckets": 0}, "'buckets'"),
        ({"assigner": "1 hour"}, "'1 hour' makes no windows; pass tumbling"),
        ({"aggregates": {"n": mean("its.delay")}}, "'its.delay' has a dot; make one without"),
        ({"aggregates": {"n": "count"}}, "'n': 'count' is not an aggregate; pass one such as"),
    ],
)
def test_what_cannot_be_windows_is_refused_before_a_query_starts(
    spark: SparkSession, feed: Feed, changes: dict[str, Any], message: str
) -> None:
    options: dict[str, Any] = {
        "assigner": tumbling("1 hour"),
        "key": "key",
        "aggregates": {"n": count()},
    }
    with pytest.raises((InvalidOptionError, MissingColumnError), match=message):
        windowed(feed.load(spark), **(options | changes))


@contextmanager
def shuffling(spark: SparkSession, partitions: str) -> Iterator[None]:
    """Set shuffle partitions, which a query that has state does not follow."""
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name) or ""
    spark.conf.set(name, partitions)
    yield
    spark.conf.set(name, before)


def start(
    df: DataFrame, settings: WindowSettings, checkpoint: str, *, buckets: int | None = None
) -> Followed:
    """Start windows of rows whose number is their offset, and show both outputs in numbers."""
    outputs = windowed(
        numbered(df),
        settings.assigner,
        key="key",
        aggregates=settings.aggregates,
        allowed_lateness=f"{settings.lateness_ms} ms",
        accumulation=settings.accumulation,
        trigger=settings.trigger,
        buckets=buckets,
    )
    times = [F.unix_millis(f"result.window.{side}") - DAY for side in ("start", "end")]
    said = [f"result.{name}" for name in ("kind", "pane", "pane_index", *settings.aggregates)]
    late = [F.unix_millis("late.event_time") - DAY, F.col("late.offset"), F.col("late.late_by")]
    key = F.coalesce("result.key", "late.key")
    shown: list[Column | str] = ["output", key, *times, *said, *late]
    return Followed(outputs.frame.select(shown), checkpoint)


def numbered(df: DataFrame) -> DataFrame:
    return df.withColumn("number", F.col("offset"))


def play(feed: Feed, followed: Followed, script: Script) -> None:
    for written, noted in script:
        for key, times in written.items():
            feed.write(*times, key=key)
        feed.note(noted)
        followed.until_read(noted)


def in_order(rows: list[Row]) -> Rows:
    """Divide rows into firings and late ones, ordered by key and of a key as they came."""
    by_key = sorted(rows, key=lambda row: row[1])
    firings = [row[1:-3] for row in by_key if row[0] == "result"]
    return firings, [(row[1], *row[-3:]) for row in by_key if row[0] == "late"]


def counts_of(followed: Followed, name: str) -> int:
    return sum(one[name] for one in _observed(followed, name))


def last_count_of(followed: Followed, name: str) -> int:
    return int(_observed(followed, name)[-1][name])


def _observed(followed: Followed, name: str) -> list[Any]:
    """Find what was counted; the source counts late rows by another meaning."""
    return [
        counts
        for progress in followed.query.recentProgress
        for counts in progress.observedMetrics.values()
        if name in counts and "windows" in counts and counts[name] is not None
    ]


@dataclass(frozen=True)
class Expected:
    rows: Rows
    counts: dict[str, int]


def expected_of(story: Story) -> Expected:
    """Run the operator: rows come with the bound noted before, then time goes on."""
    operator = WindowModel(story.settings)
    state: bytes | None = None
    bound: int | None = None
    offsets = itertools.count()
    rows = list[Row]()
    partially_late = 0
    for written, noted in story.script:
        moved = [(key, DAY + time) for key, times in written.items() for time in times]
        arrived = [
            (*one, 0, offset, offset) for one, offset in zip(moved, offsets, strict=False)
        ]
        for step_bound, step_rows in ((bound, arrived), (DAY + noted, [])):
            step = operator.step(state, step_bound, step_rows)
            state = step.state
            partially_late += step.partially_late
            rows += [_shown_firing(one) for one in step.out]
            rows += [("late", row[0], row[1] - DAY, row[3], row[-1]) for row in step.late]
        bound = DAY + noted
    ordered = in_order(rows)
    return Expected(ordered, {"late": len(ordered[1]), "partially_late": partially_late})


def _shown_firing(one: Firing) -> Row:
    said = one.kind, one.pane, one.pane_index
    window = one.start_ms - DAY, one.end_ms - DAY
    return "result", one.key, *window, *said, *one.values, None, None, None
