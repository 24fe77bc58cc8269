"""Rows lost, and the wait for a result: Spark's delays, an oracle and Tidegauge, on two data sets."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import numpy as np
import pandas as pd
from pyspark.sql import SparkSession

from bench import servers
from examples.flights.batches import cut, write_arrivals
from examples.flights.data import truth
from examples.flights.queries import (
    WindowQuery,
    baseline_query,
    events_read,
    has_ended,
    raise_failure,
    running_spark,
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
_DELAYS = {
    "0": 0.0,
    "1 min": 1 / 60,
    "10 min": 1 / 6,
    "1 h": 1.0,
    "3 h": 3.0,
    "6 h": 6.0,
    "12 h": 12.0,
}
_CURVE_H = [0.0, *np.geomspace(1 / 60, 16, 100)]
_CHECKED_DELAYS_H = (0, 1, 3)
_COLORS = {"oracle": "#5b8c3e", "Tidegauge": "#0b6e99"}
_SIZES = {"oracle": 160, "Tidegauge": 70}  # both are seen where they are at one place
_THEIRS = "#c0602f"


class Subject(NamedTuple):
    """A data set: at full length for the rule, and a piece of it that real queries read."""

    name: str
    readings: list[Reading]
    piece: list[Reading]


class Comparison(NamedTuple):
    """What Spark's rule does with a data set by each watermark; the curve is of every delay."""

    subject: Subject
    verdicts: list[Verdict]
    curve: list[Verdict]


def measure() -> Iterator[tuple[str, str, str]]:
    """Let Spark's rule judge each watermark, and real queries the rule."""
    subjects = [
        Subject("flights", fly(31), fly(2)),
        Subject("telemetry", _telemetry(14 * 24), _telemetry(24)),
    ]
    compared = [_compare(one) for one in subjects]
    for one in compared:
        rows = len(one.subject.readings)
        for verdict in one.verdicts:
            yield (
                f"{one.subject.name}, {rows:,} rows in batches of 1 min: {verdict.name}",
                f"{verdict.dropped:,} rows lost, {verdict.wrong:,} windows wrong",
                f"{100 * verdict.dropped / rows:.2f} %, mean wait {verdict.mean_wait_h:.2f} h",
            )
    with (
        tempfile.TemporaryDirectory() as folder,
        servers.service(Path(folder)) as url,
        running_spark(log=Path(folder) / "spark.log") as spark,
    ):
        for subject in subjects:
            windows, batches = _check(spark, url, subject, Path(folder) / subject.name)
            yield (
                f"{subject.name}: windows of real queries as the rule says",
                f"{windows:,} of {windows:,} in {batches} batches",
                f"Tidegauge, and delays of {_CHECKED_DELAYS_H} h",
            )
    _draw(compared)
    yield "the curves", str(_PICTURE.relative_to(_PICTURE.parents[1])), ""


def _telemetry(hours: float) -> list[Reading]:
    return generate(devices=20, hours=hours, every_ms=5 * MINUTE_MS)


def _compare(subject: Subject) -> Comparison:
    """Judge watermarks over batches of a minute of arrivals."""
    steps = steps_of(subject.readings, MINUTE_MS)
    arrivals = _to_frame(subject.readings)
    arrivals["batch"] = np.repeat(range(len(steps)), [len(step.readings) for step in steps])
    clock = pd.Series([step.time for step in steps])
    expected = truth(arrivals)

    def judged(name: str, told: "pd.Series[int]") -> Verdict:
        model = close_windows(arrivals, told)
        # The rule only counts; the mean is right where nothing is missing.
        means = model.merge(expected[["origin", "start", "mean_delay"]], on=["origin", "start"])
        return judge(ClosedWindows(name, means, 0), clock, expected)

    def guessed(name: str, delay_h: float) -> Verdict:
        return judged(name, guess(arrivals, len(steps), delay_h))

    verdicts = [
        *(guessed(name, delay_h) for name, delay_h in _DELAYS.items()),
        judged("oracle", _foresee(arrivals, len(steps))),
        judged("Tidegauge", _told(steps)),
    ]
    return Comparison(subject, verdicts, [guessed("", delay_h) for delay_h in _CURVE_H])


def _to_frame(readings: Sequence[Reading]) -> pd.DataFrame:
    """Name the columns as the demo's arithmetic does, which knows flights."""
    frame = pd.DataFrame(readings)
    names = {"key": "origin", "event_time": "departed", "arrived": "landed", "value": "delay"}
    return frame.rename(columns=names).astype({"delay": "float64"})


def _foresee(arrivals: pd.DataFrame, batches: int) -> "pd.Series[int]":
    """Tell the highest watermark that loses nothing: the oldest row of all batches to come."""
    oldest = arrivals.groupby("batch")["departed"].min().reindex(range(1, batches + 1))
    to_come = oldest[::-1].cummin().ffill()[::-1].fillna(END_OF_TIME)
    return to_come.astype("int64").set_axis(range(batches))


def _told(steps: Sequence[Step]) -> "pd.Series[int]":
    """Tell what all writers promise: Tidegauge's watermark."""
    told = pd.Series([min(step.notes.values()) for step in steps])
    told.iloc[-1] = END_OF_TIME
    return told


def _check(spark: SparkSession, url: str, subject: Subject, folder: Path) -> tuple[int, int]:
    """Run queries over a piece; count windows, which are as the rule says, and batches."""
    arrivals = _to_frame(subject.piece)
    with HonestFeed(url, f"bench/{subject.name}") as feed:
        feed.create(segments=1)
        ours, progress = _read_live(spark, feed, subject.piece, folder / "tidegauge")
    batches = cut(arrivals, progress)
    check_rule(ours, close_windows(arrivals, batches["watermark"]))
    if judge(ours, batches["clock"], truth(arrivals)).wrong:
        msg = f"Tidegauge's windows of {subject.name} are not those of the data"
        raise RuntimeError(msg)
    write_arrivals(arrivals, len(batches), folder / "arrivals")
    windows = len(ours.windows)
    for delay_h in _CHECKED_DELAYS_H:
        query = baseline_query(spark, folder / "arrivals", delay_h, folder / f"{delay_h}")
        found = query.finish()
        check_rule(found, close_windows(arrivals, guess(arrivals, len(batches), delay_h)))
        windows += len(found.windows)
    return windows, len(batches)


def _read_live(
    spark: SparkSession, feed: HonestFeed, readings: Sequence[Reading], folder: Path
) -> tuple[ClosedWindows, Sequence[object]]:
    """Read each hour of arrivals before the next is written; return the windows and progress."""
    named = {"key": "origin", "value": "delay"}
    query = WindowQuery(
        "tidegauge",
        read_readings(spark, feed, operators="windows").withColumnsRenamed(named),
        folder,
    )
    written = 0
    for step in steps_of(readings, HOUR_MS):
        feed.write(step)
        written += len(step.readings)
        _wait_until_read(query, written)
    feed.seal()
    wait_until(
        lambda: has_ended(query.query), "the end", go_on=lambda: raise_failure(query.query)
    )
    return query.finish(), query.query.recentProgress


def _wait_until_read(query: WindowQuery, count: int) -> None:
    wait_until(
        lambda: events_read(query.query) == count,
        f"{count} readings",
        go_on=lambda: raise_failure(query.query),
    )


def _draw(compared: Sequence[Comparison]) -> None:
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, panels = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
        for axes, one in zip(panels, compared, strict=True):
            _draw_one(axes, one)
        panels[0].set_ylabel("rows lost")
        figure.savefig(_PICTURE, metadata={"Date": None})
        plt.close(figure)


def _draw_one(axes: Axes, compared: Comparison) -> None:
    rows = len(compared.subject.readings)
    waits = [one.mean_wait_h for one in compared.curve]
    lost = [100 * one.dropped / rows for one in compared.curve]
    # A little beyond the least delay that loses nothing: longer ones only wait longer.
    longest = 1.3 * waits[lost.index(0)]
    axes.plot(waits, lost, color=_THEIRS, alpha=0.5, linewidth=2, clip_on=True)
    labelled = -longest
    for one in compared.verdicts:
        if one.mean_wait_h > longest:
            continue
        color = _COLORS.get(one.name, _THEIRS)
        at = one.mean_wait_h, 100 * one.dropped / rows
        axes.scatter(*at, s=_SIZES.get(one.name, 30), color=color, zorder=4, clip_on=False)
        # Delays that differ too little to be told apart have one label.
        if one.name in _COLORS or one.mean_wait_h - labelled > longest / 40:
            _label(axes, one.name, at, color)
            labelled = one.mean_wait_h
    axes.set(title=compared.subject.name, xlabel="mean wait, hours after the end of a window")
    # One row of some thousands is to be told from none: logarithmic, but down to zero.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 0.1, 1, 10, 100])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axes.set_xlim(0, longest)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def _label(axes: Axes, name: str, at: tuple[float, float], color: str) -> None:
    """Write a name to the right of its point; the oracle's above Tidegauge's, where both are."""
    above = 22 if name == "oracle" else 7
    axes.annotate(name, at, xytext=(6, above), textcoords="offset points", color=color)
