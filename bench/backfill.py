"""State of a query while it reads 30 days anew: partitions read up to one time, and apart."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
from pyspark.sql import DataFrame, SparkSession

from bench import servers
from examples.flights.queries import running_spark
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

mpl.use("Agg")
from matplotlib import pyplot as plt

_PICTURE = Path(__file__).parents[1] / "docs" / "backfill.svg"
_DAYS = 30
_BATCHES = 60
_SKEWS = (2, 4)
_COLORS = ("#0b6e99", "#b8a02c", "#c0602f")


class Batch(NamedTuple):
    """What was read until the end of a batch, and what the query held then."""

    rows_read: int
    windows: int
    state_bytes: int


def measure() -> Iterator[tuple[str, str, str]]:
    """Count the readings of 40 devices by hour, from the beginning, and draw what is held."""
    readings = generate(devices=40, hours=24 * _DAYS, every_ms=5 * MINUTE_MS)
    curves = {}
    with tempfile.TemporaryDirectory() as name, servers.service(Path(name)) as url:
        folder = Path(name)
        with HonestFeed(url, "bench/backfill") as feed:
            feed.create(segments=4)
            feed.write_all(steps_of(readings, HOUR_MS))
            with running_spark(log=folder / "spark.log") as spark:
                ours = read_readings(
                    spark, feed, operators="windows", maxEventTimePerTrigger="12 hours"
                )
                run = "Tidegauge, maxEventTimePerTrigger=12 hours"
                curves[run] = _follow(ours, readings, folder / "ours")
                for skew in _SKEWS:
                    run = f"Spark's own, one partition of four {skew} times as fast"
                    curves[run] = _read_apart(spark, readings, skew, folder / f"skew-{skew}")
    least = max(one.windows for one in next(iter(curves.values())))
    for run, batches in curves.items():
        most = max(one.windows for one in batches)
        size = max(one.state_bytes for one in batches)
        yield (
            f"{len(readings):,} readings of {_DAYS} days: {run}",
            f"at most {most:,} windows held, {size / 1e6:.1f} MB, {len(batches)} batches",
            f"{most / least:.1f} of Tidegauge's",
        )
    _draw(curves)
    yield "the curves", str(_PICTURE.relative_to(_PICTURE.parents[1])), ""


def _read_apart(
    spark: SparkSession, readings: Sequence[Reading], skew: int, folder: Path
) -> list[Batch]:
    """Read files, one partition faster than the others, with the least delay that loses nothing."""
    batches = divide_unevenly(readings, (1, 1, 1, skew), _BATCHES // skew)
    delay_ms, newest = 0, batches[0][0].event_time
    for batch in batches:
        times = [one.event_time for one in batch]
        delay_ms = max(delay_ms, newest - min(times))
        newest = max(newest, *times)
    write_batches(batches, folder)
    guessed = guess_watermark(spark, folder, f"{delay_ms} milliseconds")
    return _follow(guessed, readings, folder.with_suffix(".checkpoint"))


def _follow(df: DataFrame, readings: Sequence[Reading], checkpoint: Path) -> list[Batch]:
    with Followed(count_by_hour(df), str(checkpoint)) as followed:
        followed.until(lambda: bool(followed.batches), "the first batch")
        followed.query.processAllAvailable()
        progress = followed.query.recentProgress
        if len(followed.rows) != len(count_by_window(readings)) or followed.dropped:
            msg = f"{len(followed.rows)} windows, and {followed.dropped} rows dropped"
            raise RuntimeError(msg)
    read, batches = 0, []
    for one in progress:
        (state,) = one["stateOperators"]
        read += one["numInputRows"]
        batches.append(Batch(read, state["numRowsTotal"], state["memoryUsedBytes"]))
    return batches


def _draw(curves: dict[str, list[Batch]]) -> None:
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for (run, batches), color in zip(curves.items(), _COLORS, strict=True):
            shares = [100 * one.rows_read / batches[-1].rows_read for one in batches]
            axes.plot(shares, [one.windows for one in batches], color=color, label=run)
        axes.set(xlabel="% of the rows read", ylabel="windows in state", xlim=(0, 100))
        axes.set_ylim(bottom=0)
        axes.grid(visible=True, alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
        figure.savefig(_PICTURE, metadata={"Date": None})
        plt.close(figure)
