"""Rows lost, and the wait for a result: Spark's delays, an oracle and Tidegauge, on two data sets."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from bench.harness import Row, service
from bench.queries import spark_session
from examples.flights.batches import batches_of, cut, write_arrivals
from examples.flights.data import truth
from examples.flights.queries import (
    WindowQuery,
    baseline_query,
    events_read,
)
from examples.flights.waiting import wait_until
from examples.flights.windows import (
    ClosedWindows,
    Verdict,
    check_rule,
    close_windows,
    guess,
    judge,
)
from examples.telemetry import HOUR_MS, MINUTE_MS, Reading, generate
from tests.honest_feed import HonestFeed, Step, fly, steps_of
from tests.spark.replays import read_readings
from tidegauge.event_time import END_OF_TIME

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

_PICTURE = Path(__file__).parents[1] / "docs" / "exactness.svg"
_DELAYS_MIN = {"0": 0, "1 min": 1, "10 min": 10, "1 h": 60, "3 h": 180, "6 h": 360, "12 h": 720}
_CURVE_H = [0.0, *np.geomspace(1 / 60, 16, 100)]
_CHECKED_DELAYS_H = (0, 1, 3)
_COLORS = {"oracle": "#5b8c3e", "Tidegauge": "#0b6e99"}
_SIZES = {"oracle": 160, "Tidegauge": 70}  # both are seen where they are at one place
_THEIRS = "#c0602f"


class _Subject(NamedTuple):
    """A data set, and what Spark's rule does with it by each watermark; the curve is of every delay."""

    name: str
    rows: int
    verdicts: list[Verdict]
    curve: list[Verdict]


def measure() -> Iterator[Row]:
    """Let Spark's rule judge each watermark over all readings, and real queries the rule over a piece."""
    subjects = [
        _judge_all("flights", fly(31)),
        _judge_all("telemetry", _telemetry(14 * 24)),
    ]
    for subject in subjects:
        for verdict in subject.verdicts:
            yield (
                f"{subject.name}, {subject.rows:,} rows in batches of 1 min: {verdict.name}",
                f"{verdict.dropped:,} rows lost, {verdict.wrong:,} windows wrong",
                f"{100 * verdict.dropped / subject.rows:.2f} %, mean wait {verdict.mean_wait_h:.2f} h",
            )
    _draw(subjects)
    pieces = {"flights": fly(2), "telemetry": _telemetry(24)}
    with service() as (url, folder), spark_session() as spark:
        for name, piece in pieces.items():
            windows, batches = _check(spark, url, piece, folder / name)
            yield (
                f"{name}: windows of real queries as the rule says",
                f"{windows:,} of {windows:,} in {batches} batches",
                f"Tidegauge, and delays of {_CHECKED_DELAYS_H} h",
            )


def _telemetry(hours: float) -> list[Reading]:
    return generate(devices=20, hours=hours, every_ms=5 * MINUTE_MS)


def _judge_all(name: str, readings: Sequence[Reading]) -> _Subject:
    """Judge watermarks over batches of a minute of arrivals."""
    steps = steps_of(readings, MINUTE_MS)
    arrivals = _to_frame(readings)
    arrivals["batch"] = np.repeat(range(len(steps)), [len(step.readings) for step in steps])
    clock = pd.Series([step.time for step in steps])
    expected = truth(arrivals)

    def judged(name: str, watermark: "pd.Series[int]") -> Verdict:
        model = close_windows(arrivals, watermark)
        # The rule only counts; the mean is right where nothing is missing.
        means = model.merge(expected[["origin", "start", "mean_delay"]], on=["origin", "start"])
        return judge(ClosedWindows(name, means, 0), clock, expected)

    def guessed(name: str, delay_h: float) -> Verdict:
        return judged(name, guess(arrivals, len(steps), delay_h))

    verdicts = [
        *(guessed(name, minutes / 60) for name, minutes in _DELAYS_MIN.items()),
        judged("oracle", _foresee(arrivals, len(steps))),
        judged("Tidegauge", _promised(steps)),
    ]
    curve = [guessed("", delay_h) for delay_h in _CURVE_H]
    return _Subject(name, len(readings), verdicts, curve)


def _to_frame(readings: Sequence[Reading]) -> pd.DataFrame:
    """Name the columns as the arithmetic of the flights does."""
    frame = pd.DataFrame(readings)
    names = {"key": "origin", "event_time": "departed", "arrived": "landed", "value": "delay"}
    return frame.rename(columns=names).astype({"delay": "float64"})


def _foresee(arrivals: pd.DataFrame, batches: int) -> "pd.Series[int]":
    """Return the highest watermark that loses nothing: the oldest row of all batches to come."""
    oldest = arrivals.groupby("batch")["departed"].min().reindex(range(1, batches + 1))
    to_come = oldest[::-1].cummin().ffill()[::-1].fillna(END_OF_TIME)
    return to_come.astype("int64").set_axis(range(batches))


def _promised(steps: Sequence[Step]) -> "pd.Series[int]":
    """Return what all writers promise: Tidegauge's watermark."""
    watermark = pd.Series([min(step.notes.values()) for step in steps])
    watermark.iloc[-1] = END_OF_TIME
    return watermark


def _check(
    spark: SparkSession, url: str, readings: Sequence[Reading], folder: Path
) -> tuple[int, int]:
    """Run queries over readings; count windows, which are as the rule says, and batches."""
    arrivals = _to_frame(readings)
    # Their place in the stream: segment 0, and the offset.
    arrivals.index = pd.MultiIndex.from_product([[0], range(len(readings))])
    with HonestFeed(url, f"bench/{folder.name}") as feed:
        feed.create(segments=1)
        ours, progress = _read_live(spark, feed, readings, folder / "tidegauge")
    batches = cut(arrivals, batches_of(progress))
    check_rule(ours, close_windows(arrivals, batches["watermark"]))
    if judge(ours, batches["clock"], truth(arrivals)).wrong:
        msg = f"Tidegauge's windows of {folder.name} are not those of the data"
        raise RuntimeError(msg)
    write_arrivals(arrivals, len(batches), folder / "arrivals")
    windows = len(ours.windows)
    for delay_h in _CHECKED_DELAYS_H:
        query = baseline_query(spark, folder / "arrivals", delay_h, folder / f"{delay_h}")
        theirs = query.finish()
        check_rule(theirs, close_windows(arrivals, guess(arrivals, len(batches), delay_h)))
        windows += len(theirs.windows)
    return windows, len(batches)


def _read_live(
    spark: SparkSession, feed: HonestFeed, readings: Sequence[Reading], folder: Path
) -> tuple[ClosedWindows, Sequence[object]]:
    """Read each hour of arrivals before the next is written; return the windows and progress."""
    df = read_readings(spark, feed, operators="windows")
    names = {"key": "origin", "value": "delay"}
    query = WindowQuery("tidegauge", df.withColumnsRenamed(names), folder)

    def wait(done: Callable[[], bool], what: str) -> None:
        wait_until(done, what, go_on=query.check)

    written = 0

    def has_read() -> bool:
        return events_read(query.query) == written

    for step in steps_of(readings, HOUR_MS):
        feed.write(step)
        written += len(step.readings)
        wait(has_read, f"{written} readings")
    feed.seal()
    wait(query.has_ended, "the end")
    return query.finish(), query.query.recentProgress


def _draw(subjects: Sequence[_Subject]) -> None:
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
        for axes, subject in zip(panels, subjects, strict=True):
            _draw_panel(axes, subject)
        panels[0].set_ylabel("rows lost")
        figure.savefig(_PICTURE, metadata={"Date": None})
        plt.close(figure)


def _draw_panel(axes: Axes, subject: _Subject) -> None:
    waits = [verdict.mean_wait_h for verdict in subject.curve]
    lost = [100 * verdict.dropped / subject.rows for verdict in subject.curve]
    # A little beyond the least delay that loses nothing: longer ones only wait longer.
    longest = 1.3 * waits[lost.index(0)]
    axes.plot(waits, lost, color=_THEIRS, alpha=0.5, linewidth=2, clip_on=True)
    labelled = -longest
    for verdict in subject.verdicts:
        if verdict.mean_wait_h > longest:
            continue
        color = _COLORS.get(verdict.name, _THEIRS)
        at = verdict.mean_wait_h, 100 * verdict.dropped / subject.rows
        axes.scatter(*at, s=_SIZES.get(verdict.name, 30), color=color, zorder=4, clip_on=False)
        # Delays that differ too little to be distinguished have one label.
        if verdict.name in _COLORS or verdict.mean_wait_h - labelled > longest / 40:
            # The oracle's label is above Tidegauge's, where both are.
            place = 6, 22 if verdict.name == "oracle" else 7
            axes.annotate(verdict.name, at, place, textcoords="offset points", color=color)
            labelled = verdict.mean_wait_h
    axes.set(title=subject.name, xlabel="mean wait, hours after the end of a window")
    # A row of some thousands differs from none: logarithmic, but down to zero.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 0.1, 1, 10, 100])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axes.set_xlim(0, longest)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
