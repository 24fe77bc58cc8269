"""Draw docs/panes.svg: what a window says as its rows come, by how it accumulates.

The operator itself says it: ``python scripts/draw_panes.py`` after a change of what windows say.
"""

from pathlib import Path
from typing import get_args

import matplotlib as mpl

from spark_source.processing import WindowSettings, tumbling
from spark_source.processing.aggregates import sum  # noqa: A004
from spark_source.processing.windowed import Accumulation

mpl.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from tests.window_model import Firing, WindowModel

_PICTURE = Path(__file__).parents[1] / "docs" / "panes.svg"
_MINUTE = 60_000
_WINDOW = 10 * _MINUTE
_STEPS: list[tuple[int, list[tuple[int, int]]]] = [
    # The bound, and the rows that come with it: minutes, and values.
    (0, [(2, 5), (7, 3)]),
    (3, [(6, 4), (12, 2)]),
    (10, [(15, 1)]),
    (14, [(8, 6)]),
    (18, [(4, 1), (16, 7)]),
    (20, [(9, 2)]),
]
_LATENESS = 10
_COLORS = {"early": "#b8a02c", "on_time": "#0b6e99", "late": "#c0602f"}


def _draw(axes: Axes, accumulation: Accumulation) -> None:
    operator = WindowModel(
        WindowSettings(
            assigner=tumbling("10 minutes"),
            aggregates={"value": sum("value")},
            lateness_ms=_LATENESS * _MINUTE,
            accumulation=accumulation,
            trigger="early",
        )
    )
    state = None
    for number, (bound, rows) in enumerate(_STEPS):
        come = [
            ("key", minute * _MINUTE, 0, number * 10 + place, value)
            for place, (minute, value) in enumerate(rows)
        ]
        step = operator.step(state, bound * _MINUTE, come)
        state = step.state
        for start in {one.start_ms for one in step.out}:
            _say(axes, number, start, [one for one in step.out if one.start_ms == start])
        gone = {row[1] for row in step.late}
        for _, time, _, _, value in come:
            color = "#999999" if time in gone else "#333333"
            axes.text(
                number,
                time / _MINUTE,
                str(value),
                color=color,
                ha="center",
                va="center",
                zorder=4,
            )
            axes.plot(
                number, time / _MINUTE, "o", mfc="white", color=color, markersize=13, zorder=3
            )
    bounds = [bound for bound, _ in _STEPS]
    axes.step([*range(-1, len(bounds))], [0, *bounds], where="post", color="#5b8c3e")
    axes.set(
        title=accumulation.replace("_", " "),
        xlabel="batch",
        xlim=(-0.5, len(_STEPS)),
        ylim=(0, 21),
        yticks=(0, 10, 20),
    )


def _say(axes: Axes, number: int, start: int, firings: list[Firing]) -> None:
    """Show what a window says in a step."""
    color = _COLORS[firings[-1].pane]
    words = [f"{'-' if one.kind == 'retraction' else ''}{one.values[0]}" for one in firings]
    place = (number + 0.22, start / _MINUTE + 0.3)
    axes.add_patch(Rectangle(place, 0.56, _WINDOW / _MINUTE - 0.6, alpha=0.18, color=color))
    middle = (number + 0.5, (start + _WINDOW / 2) / _MINUTE)
    axes.text(*middle, "\n".join(words), ha="center", va="center", color=color, weight="bold")


def main() -> None:
    """Draw one picture for each way of accumulating."""
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, panels = plt.subplots(3, 1, figsize=(8, 9), sharex=True, layout="constrained")
        for axes, accumulation in zip(panels, get_args(Accumulation), strict=True):
            _draw(axes, accumulation)
            axes.set_ylabel("event time, minutes")
            axes.axhline(10, color="#cccccc", linewidth=0.8, zorder=0)
            axes.label_outer()
        for pane, color in _COLORS.items():
            panels[0].plot([], [], "s", color=color, alpha=0.6, label=pane.replace("_", " "))
        panels[0].plot([], [], color="#5b8c3e", label="bound")
        figure.legend(loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(_PICTURE, metadata={"Date": None})
        plt.close(figure)


main()
