"""What the demo shows: a table, a picture and the results as CSV."""

from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from rich.console import Console
from rich.table import Table

from tidegauge_cli.demo.windows import Verdict

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.ticker import FuncFormatter

_OURS = "#0b6e99"
_THEIRS = "#c0602f"
_CURVE = "#dba283"


@dataclass(frozen=True, slots=True)
class Results:
    """What a run found.

    The verdicts begin with Tidegauge's, and the windows are those that its query closed. Each
    arrival, in the order of the stream, has its batch; each batch has its rows, clock and
    watermark. The curve is what the model of Spark's rule says for every delay.
    """

    verdicts: list[Verdict]
    arrivals: pd.DataFrame
    batches: pd.DataFrame
    windows: pd.DataFrame
    curve: pd.DataFrame


def print_table(console: Console, results: Results) -> None:
    """Print a row for each query."""
    rows = len(results.arrivals)
    table = Table(
        title=f"{rows} flights in the same {len(results.batches)} batches for every query, "
        "windows of one hour for each airport"
    )
    table.add_column("")
    headings = "wrong windows,rows dropped as late,%,windows never closed,mean wait,longest"
    for heading in headings.split(","):
        table.add_column(heading, justify="right")
    for one in results.verdicts:
        table.add_row(
            one.name,
            str(one.wrong),
            str(one.dropped),
            f"{100 * one.dropped / rows:.1f}",
            str(one.never_closed),
            f"{one.mean_wait_h:.1f} h",
            f"{one.max_wait_h:.1f} h",
            style="bold" if one.name == "tidegauge" else "",
        )
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
    for one in results.verdicts:
        is_ours = one.name == "tidegauge"
        color = _OURS if is_ours else _THEIRS
        at = (one.mean_wait_h, 100 * one.dropped / rows)
        axes.scatter(*at, s=150 if is_ours else 70, color=color, zorder=4, clip_on=False)
        axes.annotate(
            "Tidegauge" if is_ours else one.name.removeprefix("delay "),
            at,
            xytext=(-11, 9) if is_ours else (8, 7),  # the curve is on the right of ours
            textcoords="offset points",
            ha="right" if is_ours else "left",
            color=color,
            size="large",
            weight="bold" if is_ours else "normal",
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
