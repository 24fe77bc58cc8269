"""What the demo shows: a table, a picture and the results as CSV."""

from pathlib import Path

import matplotlib as mpl
import pandas as pd
from rich.console import Console
from rich.table import Table

from tidegauge_cli.demo.windows import Verdict

mpl.use("Agg")
from matplotlib import pyplot as plt

_OURS = "#0b6e99"
_THEIRS = "#c0602f"


def print_table(console: Console, verdicts: list[Verdict], *, rows: int) -> None:
    """Print a row for each query."""
    table = Table(title=f"{rows} flights, windows of one hour for each airport")
    headings = ("", "batches", "windows", "wrong", "lost", "%", "mean wait", "max")
    for heading in headings:
        table.add_column(heading, justify="right" if heading else "left", no_wrap=True)
    for one in verdicts:
        table.add_row(
            one.name,
            str(one.batches),
            str(one.emitted),
            str(one.wrong),
            str(one.lost),
            f"{100 * one.lost / rows:.1f}",
            f"{one.mean_wait_h:.1f} h",
            f"{one.max_wait_h:.1f} h",
            style="bold" if one.name == "tidegauge" else "",
        )
    console.print(table)


def write_results(
    folder: Path, verdicts: list[Verdict], windows: pd.DataFrame, *, rows: int
) -> list[Path]:
    """Write the windows, the comparison and the picture; return the paths."""
    paths = [folder / name for name in ("windows.csv", "comparison.csv", "comparison.png")]
    windows.sort_values(["start", "origin"]).to_csv(paths[0], index=False)
    names = Verdict.__dataclass_fields__
    pd.DataFrame([{name: getattr(one, name) for name in names} for one in verdicts]).to_csv(
        paths[1], index=False
    )
    _draw(paths[2], verdicts, rows=rows)
    return paths


def _draw(path: Path, verdicts: list[Verdict], *, rows: int) -> None:
    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    for one in verdicts:
        lost = 100 * one.lost / rows
        color = _OURS if one.name == "tidegauge" else _THEIRS
        axes.scatter(one.mean_wait_h, lost, s=90, color=color, zorder=3)
        axes.annotate(
            one.name,
            (one.mean_wait_h, lost),
            xytext=(8, 6),
            textcoords="offset points",
            color=color,
            weight="bold" if color == _OURS else "normal",
        )
    axes.set_xlabel("mean wait for a result, hours after the end of its window")
    axes.set_ylabel("rows lost, %")
    axes.set_title("Told by the writers, or guessed: what is lost, and what it costs to wait")
    axes.grid(visible=True, alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=-1)
    figure.savefig(path, dpi=150)
    plt.close(figure)
