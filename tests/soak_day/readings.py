"""What a day measured: kept in a file, drawn in one picture, told on one page."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

import matplotlib as mpl

from tests.soak_day.trend import LIMITS, SHORTEST_S, Change, change_of

mpl.use("Agg")
from matplotlib import pyplot as plt

_ON_LOG_SCALE = ("delay", "folders", "latency")
_Samples = list[tuple[float, float]]


class Readings:
    """Samples by the kind of measurement and its name, in a folder for the results."""

    def __init__(self, folder: Path) -> None:
        self.kills: list[tuple[float, str]] = []
        self._folder = folder
        self._recent = defaultdict[tuple[str, str], list[float]](list)
        self._samples = {kind: defaultdict[str, _Samples](list) for kind in LIMITS}
        self._end = 0.0

    def note(self, kind: str, name: str, value: float) -> None:
        """Take a measurement, many of which make one sample."""
        self._recent[kind, name].append(value)

    def sample(self, at: float) -> None:
        """Make the medians of what was noted the samples of a time, s, and write them."""
        self._end = at
        line = {"s": at}
        for (kind, name), values in self._recent.items():
            line[f"{kind}: {name}"] = median(values)
            self._samples[kind][name].append((at, median(values)))
        self._recent.clear()
        with (self._folder / "samples.jsonl").open("a") as file:
            print(json.dumps(line), file=file)

    def summary(self, heading: str, broken: list[str]) -> tuple[bool, str]:
        """Draw the picture and write the page; return whether all is well, and the page."""
        self._draw(heading)
        changes = self._changes()
        rising = [
            f"{kind} of {name} rises from {change.second:.1f} to {change.last:.1f}"
            for (kind, name), change in changes.items()
            if change and change.rises
        ]
        told = "FAILED" if broken or rising else "PASSED"
        killed = Counter(name for _, name in self.kills)
        lines = [heading, "", "\n".join([told, *broken, *rising]), ""]
        lines += ["killed: " + ", ".join(f"{n} {one}" for one, n in sorted(killed.items())), ""]
        if self._end < SHORTEST_S:
            lines += ["too short to tell whether something rises: that takes an hour", ""]
        lines.append(f"{'':40}{'median':>9}{'most':>9}{'second':>9}{'last':>9} quarter")
        for (kind, name), change in changes.items():
            values = [one for _, one in self._samples[kind][name]]
            quarters = f"{change.second:9.1f}{change.last:9.1f}" if change else ""
            lines.append(
                f"{kind + ': ' + name:40}{median(values):9.1f}{max(values):9.1f}{quarters}"
            )
        page = "\n".join(lines) + "\n"
        (self._folder / "summary.txt").write_text(page)
        return told == "PASSED", page

    def _changes(self) -> dict[tuple[str, str], Change | None]:
        """Compare quarters, but for processes that were killed after the first: they began anew."""
        killed = {name for at, name in self.kills if at > self._end / 4}
        return {
            (kind, name): None
            if name.removeprefix("heap of ") in killed
            else change_of(samples, self._end, LIMITS[kind])
            for kind, names in self._samples.items()
            for name, samples in sorted(names.items())
        }

    def _draw(self, heading: str) -> None:
        figure, panels = plt.subplots(3, 2, figsize=(14, 12), layout="constrained")
        for (kind, names), axes in zip(self._samples.items(), panels.flat, strict=True):
            axes.set_prop_cycle(color=mpl.colormaps["tab20"](range(20)))
            for name, samples in sorted(names.items()):
                hours, values = [at / 3_600 for at, _ in samples], [one for _, one in samples]
                axes.plot(hours, values, label=name, linewidth=1)
            for at, _ in self.kills:
                axes.axvline(at / 3_600, ymax=0.02, color="black", linewidth=0.5)
            axes.set(title=kind, xlabel="hours (a stroke at the bottom: a kill)")
            if kind.startswith(_ON_LOG_SCALE):
                axes.set_yscale("log")
            else:
                axes.set_ylim(bottom=0)
            axes.grid(visible=True, alpha=0.25)
            if names:
                axes.legend(frameon=False, fontsize=7, ncols=2, loc="upper left")
        figure.suptitle(heading)
        figure.savefig(self._folder / "day.png", dpi=100)
        plt.close(figure)
