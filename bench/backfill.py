"""State of a query while it reads 30 days from the beginning: partitions read up to one time, and apart."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from bench.harness import Row, service, sized
from bench.queries import spark_session
from examples.telemetry import HOUR_MS, MINUTE_MS, Reading, count_by_window, generate
from tests.honest_feed import HonestFeed, steps_of
from tests.spark.feed import Followed
from tests.spark.replays import (
    count_by_hour,
    divide_unevenly,
    guess_watermark,
    read_readings,
    write_batches,
)

_DAYS = sized(30)
_BATCHES = 60
_SKEWS = (2, 4)


class _State(NamedTuple):
    """What a query held at most, and how many batches it had."""

    windows: int
    size_bytes: int
    batches: int


def measure() -> Iterator[Row]:
    """Count the readings of 40 devices by hour, from the beginning."""
    readings = generate(devices=40, hours=24 * _DAYS, every_ms=5 * MINUTE_MS)
    most = {"maxEventTimePerTrigger": "12 hours"}
    with (
        service() as (url, folder),
        HonestFeed(url, "bench/backfill") as feed,
        spark_session() as spark,
    ):
        feed.create(segments=4)
        feed.write_all(steps_of(readings, HOUR_MS))
        ours = read_readings(spark, feed, operators="windows", **most)
        states = {"Tidegauge, 12 hours a batch": _follow(ours, readings, folder / "ours")}
        for skew in _SKEWS:
            run = f"Spark's own, one partition of four {skew} times as fast"
            states[run] = _read_apart(spark, readings, skew, folder / f"skew-{skew}")
    least = min(state.windows for state in states.values())
    for run, state in states.items():
        held = f"at most {state.windows:,} windows held, {state.size_bytes / 1e6:.1f} MB"
        yield (
            f"{len(readings):,} readings of {_DAYS} days: {run}",
            f"{held}, {state.batches} batches",
            f"{state.windows / least:.1f} of the least",
        )


def _read_apart(
    spark: SparkSession, readings: Sequence[Reading], skew: int, folder: Path
) -> _State:
    """Read files, one partition faster than the others, with the least delay that loses nothing."""
    batches = divide_unevenly(readings, (1, 1, 1, skew), _BATCHES // skew)
    delay_ms, newest = 0, batches[0][0].event_time
    for batch in batches:
        times = [reading.event_time for reading in batch]
        delay_ms = max(delay_ms, newest - min(times))
        newest = max(newest, *times)
    write_batches(batches, folder)
    guessed = guess_watermark(spark, folder, f"{delay_ms} milliseconds")
    return _follow(guessed, readings, folder.with_suffix(".checkpoint"))


def _follow(df: DataFrame, readings: Sequence[Reading], checkpoint: Path) -> _State:
    with Followed(count_by_hour(df), str(checkpoint)) as followed:
        followed.until(lambda: bool(followed.batches), "the first batch")
        followed.query.processAllAvailable()
        progress = followed.query.recentProgress
        if len(followed.rows) != len(count_by_window(readings)) or followed.dropped:
            msg = f"{len(followed.rows)} windows, and {followed.dropped} rows dropped"
            raise RuntimeError(msg)
    held = [batch["stateOperators"][0] for batch in progress]
    return _State(
        max(state["numRowsTotal"] for state in held),
        max(state["memoryUsedBytes"] for state in held),
        len(progress),
    )
