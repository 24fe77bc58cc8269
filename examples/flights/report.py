"""What a run shows: a table, a picture, and all that they were computed from as CSV."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from examples.flights.windows import Verdict, curve

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

_OURS, _THEIRS = "#0b6e99", "#c0602f"


def is_ours(verdict: Verdict) -> bool:
    """Return whether it is about a query with Tidegauge's watermark."""
    return verdict.name.startswith("tidegauge")


def describe(verdicts: Sequence[Verdict], rows: int) -> str:
    """Write a table of what each query did with so many rows."""
    table = pd.DataFrame(map(asdict, verdicts))
    table.insert(3, "%", (100 * table["dropped"] / rows).round(1))
    names = {
        "name": "",
        "wrong": "wrong windows",
        "dropped": "rows dropped as late",
        "never_closed": "windows never closed",
        "mean_wait_h": "mean wait (h)",
        "max_wait_h": "longest (h)",
    }
    return table.rename(columns=names).to_string(index=False, float_format="{:.1f}".format)


def write_results(
    folder: Path,
    verdicts: Sequence[Verdict],
    arrivals: pd.DataFrame,
    batches: pd.DataFrame,
    windows: pd.DataFrame,
) -> None:
    """Write the comparison and its picture, the arrivals, the batches and Tidegauge's windows."""
    curve_of_delays = curve(arrivals, batches["clock"])
    tables = {
        "comparison.csv": pd.DataFrame(map(asdict, verdicts)),
        "arrivals.csv": arrivals,
        "batches.csv": batches.reset_index(),
        "windows.csv": windows.sort_values(["start", "origin"]),
        "curve.csv": curve_of_delays,
    }
    for name, table in tables.items():
        table.to_csv(folder / name, index=False)
    _draw(folder / "comparison.png", verdicts, curve_of_delays, len(arrivals))
    print(f"wrote {', '.join(tables)} and comparison.png to {folder.resolve()}")


def _draw(path: Path, verdicts: Sequence[Verdict], delays: pd.DataFrame, rows: int) -> None:
    """Draw what is lost over how long one waits: a curve for every delay, and a point a query."""
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    waits, lost = delays["mean_wait_h"], 100 * delays["dropped"] / rows
    axes.plot(waits, lost, color=_THEIRS, alpha=0.5, linewidth=2, clip_on=False)
    label = "Spark's own watermark,\nfor every delay from 0 to 24 h"
    axes.annotate(
        label,
        (waits[0], lost[0]),
        xytext=(90, -6),
        textcoords="offset points",
        color=_THEIRS,
        style="italic",
    )
    for number, verdict in enumerate(verdicts):
        color, size = (_OURS, 150) if is_ours(verdict) else (_THEIRS, 70)
        at = (verdict.mean_wait_h, 100 * verdict.dropped / rows)
        axes.scatter(*at, s=size, color=color, zorder=4, clip_on=False)
        axes.annotate(
            verdict.name.removeprefix("delay "),
            at,
            # The first two, Tidegauge's over Kafka, lie side by side.
            xytext=(-11, 9) if number == 0 else (8, 9),
            textcoords="offset points",
            ha="right" if number == 0 else "left",
            color=color,
            size="large",
        )
    axes.set_title("Declared by the writers, or guessed: what is lost, and how long one waits")
    axes.set_xlabel("mean wait for a result, hours after the end of its window")
    axes.set_ylabel("rows dropped as late")
    # One row of some thousands has to differ from none: logarithmic, but down to zero.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 0.1, 1, 10, 100])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axes.set_xlim(left=0)
    axes.grid(visible=True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
