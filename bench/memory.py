"""Memory of the service: what each writer, stream and mark adds, and how it grows."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl

from bench import filling, servers

mpl.use("Agg")
from matplotlib import pyplot as plt

_WIDE, _NARROW = "bench/wide", "bench/narrow"
_PICTURE = Path(__file__).parents[1] / "docs" / "memory.svg"
_COLORS = ("#0b6e99", "#c0602f", "#5b8c3e", "#7a5ba6")


class Kind(NamedTuple):
    """Something that a service may have many of.

    Attributes
    ----------
    name
        One of it.
    least
        How many there are at first; then ten and a hundred times as many.
    fill
        Stores so many.
    """

    name: str
    least: int
    fill: Callable[[Path, int], None]


class Size(NamedTuple):
    """What so many of a kind take beyond an empty service, bytes."""

    count: int
    memory: int
    disk: int


def measure() -> Iterator[tuple[str, str, str]]:
    """Serve databases of rising size, and draw the curves."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = filling.create_streams(folder, {_WIDE: 64, _NARROW: 4})
        base = _serve(folder)
        curves = {kind: list(_grow(kind, empty, base, folder / "grown")) for kind in _KINDS}
    for kind, sizes in curves.items():
        yield _row(kind, sizes)
    _draw(curves)
    yield (
        "the curves",
        str(_PICTURE.relative_to(_PICTURE.parents[1])),
        f"empty: {base / 1e6:.0f} MB",
    )


def _row(kind: Kind, sizes: list[Size]) -> tuple[str, str, str]:
    _, less, most = sizes
    per_one = (most.memory - less.memory) / (most.count - less.count)
    on_disk = (most.disk - less.disk) / (most.count - less.count)
    shown = ", ".join(f"{size.memory / 1e6:,.1f} MB for {size.count:,}" for size in sizes)
    return (
        f"memory per {kind.name}",
        f"{per_one:,.0f} bytes",
        f"{on_disk:,.0f} on disk; {shown}",
    )


def _grow(kind: Kind, empty: Path, base: int, folder: Path) -> Iterator[Size]:
    for factor in (1, 10, 100):
        folder.mkdir()
        database = Path(shutil.copy(empty, folder))
        before = database.stat().st_size
        kind.fill(database, kind.least * factor)
        disk = database.stat().st_size - before
        yield Size(kind.least * factor, _serve(folder) - base, disk)
        shutil.rmtree(folder)


def _serve(folder: Path) -> int:
    """Start and stop the service, and tell the memory that is its own, in bytes."""
    with servers.process(folder) as (_, process):
        uss: int = process.memory_full_info().uss
        return uss


def _draw(curves: dict[Kind, list[Size]]) -> None:
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for (kind, sizes), color in zip(curves.items(), _COLORS, strict=True):
            counts = [size.count for size in sizes]
            megabytes = [max(size.memory, 1e4) / 1e6 for size in sizes]
            axes.plot(counts, megabytes, marker="o", color=color, label=kind.name)
        axes.set(
            xscale="log",
            yscale="log",
            xlabel="how many",
            ylabel="memory beyond an empty service, MB",
        )
        axes.grid(visible=True, which="both", alpha=0.25)
        axes.legend(frameon=False)
        figure.savefig(_PICTURE, metadata={"Date": None})
        plt.close(figure)


def _writers(segments: int) -> Callable[[Path, int], None]:
    def fill(database: Path, count: int) -> None:
        filling.fill_writers(database, _WIDE, count, segments=segments, reports=1)

    return fill


def _streams(database: Path, count: int) -> None:
    filling.copy_stream(database, _NARROW, count, writers=0)


def _marks(database: Path, count: int) -> None:
    filling.fill_marks(database, _NARROW, count, segments=1)


_KINDS = (
    Kind("writer in 1 segment", 1_000, _writers(1)),
    Kind("writer in 64 segments", 1_000, _writers(64)),
    Kind("stream of 4 segments", 100, _streams),
    Kind("mark", 10_000, _marks),
)
