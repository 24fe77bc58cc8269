"""The same stream read live, anew, in other portions and with restarts gives the same results."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from functools import reduce
from itertools import count
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from examples.offline_devices import OfflineDevices
from examples.telemetry import (
    HOUR_MS,
    MINUTE_MS,
    Reading,
    count_by_window,
    find_silences,
    generate,
)
from spark_source import process, windowed
from spark_source.processing import aggregates, tumbling
from tests.effort import Effort
from tests.honest_feed import HonestFeed, Step, fly, steps_of
from tests.server import ServerProcess
from tests.spark.replays import Replay, count_by_hour, read_readings

NewFeed = Callable[[int], HonestFeed]
_NUMBERS = count(1)
_SILENCE_MS = 30 * MINUTE_MS
_DATA: dict[str, Callable[[int], list[Reading]]] = {
    "flights": fly,
    "telemetry": lambda days: generate(devices=8, hours=24 * days, every_ms=10 * MINUTE_MS),
}


class Portions(NamedTuple):
    """How a stream is read: its segments, the limits of a batch, and batches between restarts."""

    segments: int
    limits: dict[str, str]
    batches_a_run: float


_BY_ROWS = {"maxRowsPerTrigger": "400"}
_SHORT = [Portions(7, _BY_ROWS, 3)]
_LONG = [
    Portions(segments, limits, batches_a_run)
    for segments in (1, 2, 7)
    for limits in (
        _BY_ROWS,
        {"maxEventTimePerTrigger": "7 hours"},
        {"maxRowsPerTrigger": "none"},
    )
    for batches_a_run in (inf, 4)
]


@pytest.fixture
def new_feed(shared_server: ServerProcess) -> Iterator[NewFeed]:
    feeds = list[HonestFeed]()

    def create(segments: int) -> HonestFeed:
        feed = HonestFeed(shared_server.url, f"replay/stream-{next(_NUMBERS)}")
        feed.create(segments)
        feeds.append(feed)
        return feed

    yield create
    for feed in feeds:
        feed.__exit__()


def _read(spark: SparkSession, feed: HonestFeed, **options: Any) -> DataFrame:
    """Count by Spark's own windows and by ours, and find silences, in one query."""
    readings = read_readings(spark, feed, **options)
    values = {"count": aggregates.count(), "sum": aggregates.sum("value")}
    corrected = windowed(readings, tumbling("1 hour"), key="key", aggregates=values, buckets=2)
    silent = OfflineDevices(timedelta(milliseconds=_SILENCE_MS))
    changes = process(readings, silent, buckets=2).output()
    frames = {
        "windows": count_by_hour(readings),
        "corrected": corrected.output().select(
            "key", F.unix_millis("window.start"), "count", "sum"
        ),
        "changes": changes.select("device", F.unix_millis("at"), "status"),
    }
    tagged = (
        df.select(
            F.lit(name), *(F.array(*(F.col(f"`{one}`").cast("string") for one in df.columns)),)
        )
        for name, df in frames.items()
    )
    return reduce(DataFrame.union, tagged)


def _expected(readings: list[Reading]) -> list[tuple[str, list[str]]]:
    windows = [(*window, *values) for window, values in count_by_window(readings).items()]
    jobs: dict[str, Iterable[tuple[Any, ...]]] = {
        "windows": windows,
        "corrected": windows,
        "changes": find_silences(readings, _SILENCE_MS),
    }
    return sorted((name, [*map(str, row)]) for name, rows in jobs.items() for row in rows)


def _read_live(live: Replay, feed: HonestFeed, steps: list[Step], *, steps_a_run: int) -> None:
    """Write steps while the query runs; it reads each third one before the next is written."""
    written = 0
    for at in range(0, len(steps), steps_a_run):
        part = steps[at : at + steps_a_run]
        with live.running() as followed:
            for number, step in enumerate(part):
                feed.write(step)
                written += len(step.readings)
                if number % 3 == 2 or step is part[-1]:
                    followed.until(
                        lambda count=written: followed.events == count,  # type: ignore[misc]
                        f"{written} readings",
                    )
    feed.seal()
    live.finish()


@pytest.mark.parametrize("data", ["telemetry", pytest.param("flights", marks=pytest.mark.soak)])
def test_results_are_the_same_live_and_replayed_in_any_portions(
    spark: SparkSession, new_feed: NewFeed, tmp_path: Path, effort: Effort, data: str
) -> None:
    days = effort.times("days", short=1, long=3)
    readings = _DATA[data](days)
    steps = steps_of(readings, 3 * HOUR_MS)
    expected = _expected(readings)
    feeds = dict[int, HonestFeed]()
    for segments in [2] if days == 1 else [1, 2, 7]:
        feed = feeds[segments] = new_feed(segments)
        live = Replay(_read(spark, feed), tmp_path / f"live-{segments}")
        _read_live(live, feed, steps, steps_a_run=len(steps) // 2 + 1)
        assert (live.rows, live.dropped) == (expected, 0)
    for number, portions in enumerate(_LONG if days > 1 else _SHORT):
        if portions.segments not in feeds:
            feeds[portions.segments] = new_feed(portions.segments)
            feeds[portions.segments].write_all(steps)
        df = _read(spark, feeds[portions.segments], **portions.limits)
        replay = Replay(df, tmp_path / f"{number}")
        replay.finish(portions.batches_a_run)
        assert (portions, replay.rows, replay.dropped) == (portions, expected, 0)


def test_a_backfill_holds_no_more_windows_than_two_of_its_batches_span(
    spark: SparkSession, new_feed: NewFeed, tmp_path: Path
) -> None:
    readings = _DATA["telemetry"](1)
    feed = new_feed(4)
    feed.write_all(steps_of(readings, HOUR_MS))
    limits = {"maxEventTimePerTrigger": "4 hours"}
    by_time = count_by_hour(read_readings(spark, feed, operators="windows", **limits))
    backfill = Replay(by_time, tmp_path)
    with backfill.running() as followed:
        followed.until_end()
        progress = followed.query.recentProgress
    windows = count_by_window(readings)
    assert backfill.rows == sorted((*window, *values) for window, values in windows.items())
    held = [batch["stateOperators"][0]["numRowsTotal"] for batch in progress]
    # Windows close one batch after the bound that they wait for.
    assert max(held) <= 8 * 2 * 4 < len(windows)
