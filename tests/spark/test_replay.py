"""The same stream read live, anew, in other portions and with restarts gives the same results."""

from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import count
from math import inf
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from examples.flights.queries import events_read
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
from tests.spark.feed import Feed, Followed
from tests.spark.replays import (
    Replay,
    count_by_hour,
    has_ended,
    read_readings,
)

NewFeed = Callable[[int], HonestFeed]
_NUMBERS = count(1)


class Portions(NamedTuple):
    """How a stream is read: its segments, the limits of a batch, and batches between restarts."""

    segments: int
    limits: dict[str, str]
    batches_a_run: float


class Job(NamedTuple):
    """A query over readings, and what it has to say of them."""

    read: Callable[..., DataFrame]
    expect: Callable[[list[Reading]], Iterable[tuple[Any, ...]]]


_BY_ROWS = {"maxRowsPerTrigger": "400"}
_BY_TIME = {"maxEventTimePerTrigger": "7 hours"}
_AT_ONCE = {"maxRowsPerTrigger": "none"}
_SHORT = {"flights": Portions(1, _AT_ONCE, inf), "telemetry": Portions(7, _BY_ROWS, 3)}
_LONG = [
    Portions(segments, limits, batches_a_run)
    for segments in (1, 2, 7)
    for limits in (_BY_ROWS, _BY_TIME, _AT_ONCE)
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
                    _wait_until_read(followed, written)
    feed.seal()
    live.finish()


def _wait_until_read(followed: Followed, count: int) -> None:
    followed.until(lambda: events_read(followed.query) == count, f"{count} readings")


def _read_windows(*args: Any, **options: Any) -> DataFrame:
    return count_by_hour(read_readings(*args, operators="windows", **options))


def _expect_windows(readings: list[Reading]) -> Iterable[tuple[Any, ...]]:
    return ((*window, *values) for window, values in count_by_window(readings).items())


def _read_changes(*args: Any, **options: Any) -> DataFrame:
    silent = OfflineDevices(timedelta(milliseconds=_SILENCE_MS))
    changes = process(read_readings(*args, **options), silent).output()
    return changes.select("device", F.unix_millis("at"), "status")


def _read_corrected(*args: Any, **options: Any) -> DataFrame:
    values = {"count": aggregates.count(), "sum": aggregates.sum("value")}
    readings = read_readings(*args, **options)
    counted = windowed(readings, tumbling("1 hour"), key="key", aggregates=values).output()
    return counted.select("key", F.unix_millis("window.start"), "count", "sum")


def _expect_changes(readings: list[Reading]) -> Iterable[tuple[Any, ...]]:
    return find_silences(readings, _SILENCE_MS)


_DATA: dict[str, Callable[[int], list[Reading]]] = {
    "flights": fly,
    "telemetry": lambda days: generate(devices=8, hours=24 * days, every_ms=10 * MINUTE_MS),
}
_SILENCE_MS = 30 * MINUTE_MS
_JOBS = {
    "windows": Job(_read_windows, _expect_windows),
    "changes": Job(_read_changes, _expect_changes),
    "corrected": Job(_read_corrected, _expect_windows),
}


@pytest.mark.parametrize(
    ("data", "job"),
    [
        ("flights", "windows"),
        ("telemetry", "changes"),
        pytest.param("telemetry", "windows", marks=pytest.mark.soak),
        pytest.param("flights", "changes", marks=pytest.mark.soak),
        pytest.param("flights", "corrected", marks=pytest.mark.soak),
        pytest.param("telemetry", "corrected", marks=pytest.mark.soak),
    ],
)
def test_results_are_the_same_live_and_replayed_in_any_portions(
    spark: SparkSession,
    new_feed: NewFeed,
    tmp_path: Path,
    effort: Effort,
    *,
    data: str,
    job: str,
) -> None:
    days = effort.times("days", short=1, long=3)
    readings = _DATA[data](days)
    steps = steps_of(readings, 3 * HOUR_MS)
    expected = sorted(_JOBS[job].expect(readings))
    feeds = dict[int, HonestFeed]()
    for segments in [2] if days == 1 else [1, 2, 7]:
        feed = feeds[segments] = new_feed(segments)
        live = Replay(_JOBS[job].read(spark, feed), tmp_path / f"live-{segments}")
        _read_live(live, feed, steps, steps_a_run=len(steps) // 2 + 1)
        assert (live.rows, live.dropped) == (expected, 0)
    portions = _LONG if days > 1 else [_SHORT[data]]
    for number, one in enumerate(portions):
        if one.segments not in feeds:
            feeds[one.segments] = new_feed(one.segments)
            feeds[one.segments].write_all(steps)
        df = _JOBS[job].read(spark, feeds[one.segments], **one.limits)
        replay = Replay(df, tmp_path / f"{number}")
        replay.finish(one.batches_a_run)
        assert (one, replay.rows, replay.dropped) == (one, expected, 0)


def test_a_backfill_holds_no_more_windows_than_two_of_its_batches_span(
    spark: SparkSession, new_feed: NewFeed, tmp_path: Path
) -> None:
    readings = _DATA["telemetry"](1)
    feed = new_feed(4)
    feed.write_all(steps_of(readings, HOUR_MS))
    by_time = _read_windows(spark, feed, maxEventTimePerTrigger="4 hours")
    backfill = Replay(by_time, tmp_path)
    with backfill.running() as followed:
        followed.until(lambda: has_ended(followed.query), "the end of the stream")
        followed.query.processAllAvailable()
        progress = followed.query.recentProgress
    assert backfill.rows == sorted(_expect_windows(readings))
    held = [one["stateOperators"][0]["numRowsTotal"] for one in progress]
    # Windows close one batch after the bound that they wait for.
    assert max(held) <= 8 * 2 * 4 < len(count_by_window(readings))


Batches = list[list[tuple[Any, ...]]]


def _read_broken_promises(
    spark: SparkSession, feed: Feed, folder: Path, **options: str
) -> tuple[Batches, Batches]:
    """Read offset and lateness of rows, by batch, live and then from the beginning."""
    chance = Random(5)
    rows = feed.load(spark, **options).select("offset", "late")
    with Followed(rows, str(folder / "live")) as live:
        for second in range(1, 13):
            feed.write(*(second * 1_000 + chance.randrange(-3_000, 3_000) for _ in range(5)))
            feed.note(second * 1_000 + 1_000)
            if second % 4 == 0:
                live.until_read(second * 1_000)  # a multiple of what a batch takes
        feed.seal()
        live.until(lambda: has_ended(live.query), "the end")
    with Followed(rows, str(folder / "replayed")) as replayed:
        replayed.until(lambda: has_ended(replayed.query), "the end")
    return _with_rows(live), _with_rows(replayed)


def _with_rows(followed: Followed) -> Batches:
    return [sorted(rows) for _, rows in sorted(followed.batches.items()) if rows]


def test_a_row_that_was_late_live_may_be_on_time_in_a_backfill(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    rows = feed.load(spark).select("offset", "late")
    with Followed(rows, checkpoint) as live:
        feed.write(1_000)
        feed.note(10_000)
        live.until_read(10_000)
        feed.write(2_000, 12_000)
        feed.note(20_000)
        live.until_read(20_000)
        assert live.rows == [(0, False), (1, True), (2, False)]
    with Followed(rows, f"{checkpoint}-replayed") as replayed:
        replayed.until_read(20_000)
        assert replayed.rows == [(0, False), (1, False), (2, False)]


def test_batches_that_end_at_marks_make_the_same_rows_late_live_and_replayed(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    by_marks = {"admission": "marks", "maxEventTimePerTrigger": "2 seconds"}
    live, replayed = _read_broken_promises(spark, feed, tmp_path, **by_marks)
    assert replayed == live
    assert [len(rows) for rows in live] == [5, 10, 10, 10, 10, 10, 5]
    assert sum(late for rows in live for _, late in rows) == 31
