"""Memory of the service at work: what each writer, stream and mark adds, and how it grows."""

import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import matplotlib as mpl
import psutil
import uvloop

from bench import filling, servers
from bench.load import Crowd

mpl.use("Agg")
from matplotlib import pyplot as plt

_MARKED = "bench/marked"
_PICTURE = Path(__file__).parents[1] / "docs" / "memory.svg"
_COLORS = ("#0b6e99", "#c0602f", "#5b8c3e", "#b8a02c", "#7a5ba6")
_ROUNDS = 10


class Kind(NamedTuple):
    """Something that a service may have many of."""

    name: str  # of one
    least: int  # how many there are at first; then ten and a hundred times as many
    hold: Callable[[Path, int], int]
    """Lets a service hold so many, in a folder, and tells the memory that is its own, bytes."""


class Size(NamedTuple):
    """What so many of a kind take beyond an empty service, bytes."""

    many: int
    memory: int
    disk: int


def measure() -> Iterator[tuple[str, str, str]]:
    """Let services hold more and more, and draw the curves."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = filling.create_streams(folder, {}).stat().st_size
        with servers.process(folder) as (_, process):
            base = _memory(process)
        curves = {kind: list(_grow(kind, Size(0, base, empty))) for kind in _KINDS}
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
    per_one = (most.memory - less.memory) / (most.many - less.many)
    on_disk = (most.disk - less.disk) / (most.many - less.many)
    shown = ", ".join(f"{size.memory / 1e6:,.1f} MB for {size.many:,}" for size in sizes)
    return (
        f"memory per {kind.name}",
        f"{per_one:,.0f} bytes",
        f"{on_disk:,.0f} on disk; {shown}",
    )


def _grow(kind: Kind, empty: Size) -> Iterator[Size]:
    for factor in (1, 10, 100):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            memory = kind.hold(folder, kind.least * factor) - empty.memory
            disk = (folder / "bench.db").stat().st_size - empty.disk
            yield Size(kind.least * factor, memory, disk)


def _memory(process: psutil.Process) -> int:
    uss: int = process.memory_full_info().uss
    return uss


def _draw(curves: dict[Kind, list[Size]]) -> None:
    with mpl.rc_context({"svg.hashsalt": "tidegauge"}):
        figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
        for (kind, sizes), color in zip(curves.items(), _COLORS, strict=True):
            counts = [size.many for size in sizes]
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


def _writers(segments: int) -> Callable[[Path, int], int]:
    return lambda folder, count: _reported(folder, streams=1, writers=count, segments=segments)


def _streams(writers: int) -> Callable[[Path, int], int]:
    return lambda folder, count: _reported(folder, streams=count, writers=writers, segments=4)


def _reported(folder: Path, *, streams: int, writers: int, segments: int) -> int:
    """Let a crowd report in all segments until what is kept of it grows no more."""
    now = time.time_ns() // 1_000_000
    crowd = Crowd(streams, writers, segments=segments, named=segments, first_ms=now)
    with servers.process(folder) as (url, process):
        uvloop.run(filling.create_crowd(url, crowd))
        uvloop.run(filling.let_report(url, crowd, _ROUNDS))
        return _memory(process)


def _marks(folder: Path, count: int) -> int:
    database = filling.create_streams(folder, {_MARKED: 1})
    filling.fill_marks(database, _MARKED, count, segments=1)
    with servers.process(folder) as (_, process):
        return _memory(process)


_KINDS = (
    Kind("writer in 1 segment", 1_000, _writers(1)),
    Kind("writer in 64 segments", 1_000, _writers(64)),
    Kind("stream of 4 segments", 100, _streams(0)),
    Kind("stream of 10 writers", 100, _streams(10)),
    Kind("mark", 10_000, _marks),
)
