"""What the demo shows: a table, a picture and the results as CSV."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeAlias

import matplotlib as mpl
import pandas as pd
from rich.console import Console
from rich.table import Table

from examples.flights.windows import Verdict

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter

_OURS = "#0b6e99"
_THEIRS = "#c0602f"
_CURVE = "#dba283"


@dataclass(frozen=True, slots=True)
class Results:
    """What a run found.

    The verdicts begin with Tidegauge's, and the windows are those that its first query closed. Each
    arrival, in the order of the stream, has its batch; each batch has its rows, clock and
    watermark. The curve is what the model of Spark's rule says for every delay.
    """

    verdicts: list[Verdict]
    arrivals: pd.DataFrame
    batches: pd.DataFrame
    windows: pd.DataFrame
    curve: pd.DataFrame


Columns: TypeAlias = Mapping[str, Callable[[Verdict, int], str]]
"""The headings of a table, and what stands below each for a verdict about so many rows."""

_LOST: Columns = {
    "rows dropped as late": lambda one, _: str(one.dropped),
    "%": lambda one, rows: f"{100 * one.dropped / rows:.1f}",
}
_WAITS: Columns = {
    "mean wait": lambda one, _: f"{one.mean_wait_h:.1f} h",
    "longest": lambda one, _: f"{one.max_wait_h:.1f} h",
}
MAIN_JOB: Columns = {
    "wrong windows": lambda one, _: str(one.wrong),
    **_LOST,
    "windows never closed": lambda one, _: str(one.never_closed),
    **_WAITS,
}
KAFKA_JOB: Columns = {
    "windows exact": lambda one, _: f"{one.windows - one.wrong} of {one.windows}",
    **_LOST,
    "Spark counted": lambda one, _: str(one.counted),
    **_WAITS,
}


def is_ours(verdict: Verdict) -> bool:
    """Whether it is about a query with Tidegauge's watermark."""
    return verdict.name.startswith("tidegauge")


def print_table(console: Console, results: Results, columns: Columns = MAIN_JOB) -> None:
    """Print a row for each query."""
    rows = len(results.arrivals)
    table = Table(
        title=f"{rows} flights in the same {len(results.batches)} batches for every query, "
        "windows of one hour for each airport"
    )
    table.add_column("", no_wrap=True)
    for heading in columns:
        table.add_column(heading, justify="right")
    for one in results.verdicts:
        cells = (tell(one, rows) for tell in columns.values())
        table.add_row(one.name, *cells, style="bold" if is_ours(one) else "")
    console.print(table)


def write_results(folder: Path, results: Results) -> list[Path]:
    """Write the comparison, what it was computed from and the picture; return the paths."""
    tables = {
        "comparison.csv": pd.DataFrame(map(asdict, results.verdicts)),
        "arrivals.csv": results.arrivals,
        "batches.csv": results.batches.reset_index(),
        "windows.csv": results.windows.sort_values(["start", "origin"]),
        "curve.csv": results.curve,
    }
    for name, table in tables.items():
        table.to_csv(folder / name, index=False)
    picture = folder / "comparison.png"
    _draw(picture, results)
    return [*(folder / name for name in tables), picture]


def _draw(path: Path, results: Results) -> None:
    rows = len(results.arrivals)
    waits, lost = results.curve["mean_wait_h"], 100 * results.curve["dropped"] / rows
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    axes.plot(waits, lost, color=_CURVE, linewidth=2, zorder=3, clip_on=False)
    axes.fill_between(waits, lost, color=_THEIRS, alpha=0.07, linewidth=0)
    axes.annotate(
        "Spark's own watermark,\nfor every delay from 0 to 24 h",
        (waits[0], lost[0]),
        xytext=(90, -6),
        textcoords="offset points",
        color=_THEIRS,
        style="italic",
    )
    for number, one in enumerate(results.verdicts):
        ours = is_ours(one)
        color = _OURS if ours else _THEIRS
        at = (one.mean_wait_h, 100 * one.dropped / rows)
        axes.scatter(*at, s=150 if ours else 70, color=color, zorder=4, clip_on=False)
        axes.annotate(
            one.name.capitalize() if ours else one.name.removeprefix("delay "),
            at,
            # Ours come first, side by side.
            xytext=(-11, 9) if number == 0 else (8, 9),
            textcoords="offset points",
            ha="right" if number == 0 else "left",
            path_effects=[withStroke(linewidth=3, foreground="white")],
            zorder=5,
            color=color,
            size="large",
            weight="bold" if ours else "normal",
        )
    axes.set_title(
        "Told by the writers, or guessed: what is lost, and how long one waits", pad=14
    )
    axes.set_xlabel("mean wait for a result, hours after the end of its window")
    axes.set_ylabel("rows dropped as late")
    # One row of some thousands is to be told from none: logarithmic, but down to zero.
    axes.set_yscale("symlog", linthresh=0.1)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 0.1, 1, 10, 100])
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:g} %"))
    axes.set_xlim(left=0)
    axes.grid(visible=True, alpha=0.25, zorder=0)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
