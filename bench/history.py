"""Marks by time and position, and the start of the service, with years of marks behind it."""

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import uvloop

from bench import filling, servers
from bench.load import Crowd

_FEW, _MANY = "bench/few", "bench/many"
_MARKS = {_FEW: 10_000, _MANY: 10_000_000}
_CROWD = Crowd(streams=1, writers=100_000, segments=64, named=64, first_ms=1_600_000_000_000)
_SEGMENTS = 4
_LOOKUPS = 2_000
_REPORTING_S = 15

_Query = Callable[[int], dict[str, int | str]]


def measure() -> Iterator[tuple[str, str, str]]:
    """Fill a database, start the service on it, and look things up in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        empty = _start(folder)
        streams = dict.fromkeys(_MARKS, _SEGMENTS) | {_CROWD.stream(0): _CROWD.segments}
        database = filling.create_streams(folder, streams)
        for stream, count in _MARKS.items():
            filling.fill_marks(database, stream, count, segments=_SEGMENTS)
        marks = _start(folder)
        with servers.service(folder) as url:  # everybody reports twice, in all 64 segments
            httpx.get(f"{url}/readyz", timeout=60).raise_for_status()
            uvloop.run(filling.let_report(url, _CROWD, 2))
        crowd = _start(folder)
        yield "start, empty", empty.text, "imports, and the first answer of /readyz"
        yield "start, 10 million marks", marks.text, marks.beyond(empty)
        what = "start, also 100 000 writers in 64 segments, 2 reports each"
        yield what, crowd.text, crowd.beyond(empty)
        with servers.service(folder) as url:
            yield from _lookups(url)
        yield from _thinning(folder)


class _Start(NamedTuple):
    """What a start took until the service was ready, and its memory then."""

    seconds: float
    cpu_s: float
    megabytes: float

    @property
    def text(self) -> str:
        return f"{self.seconds:.1f} s, {self.cpu_s:.1f} s of CPU, {self.megabytes:,.0f} MB"

    def beyond(self, other: "_Start") -> str:
        seconds, cpu_s = self.seconds - other.seconds, self.cpu_s - other.cpu_s
        return f"{seconds:+.1f} s, {cpu_s:+.1f} s of CPU"


def _start(folder: Path) -> _Start:
    begun = time.perf_counter()
    with servers.process(folder) as (url, process):
        httpx.get(f"{url}/readyz", timeout=120).raise_for_status()
        seconds, cpu = time.perf_counter() - begun, process.cpu_times()
        return _Start(seconds, cpu.user + cpu.system, process.memory_info().rss / 1e6)


def _thinning(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Report for some seconds, first alone and then while old marks go."""
    alone, _ = _reports_ms(folder, "")
    beside, gone = _reports_ms(folder, "1:60000")
    yield (
        "a report while 10 million marks are thinned",
        f"p50 {beside[0]:.2f} ms, p99 {beside[1]:.2f} ms",
        f"without: p50 {alone[0]:.2f} ms, p99 {alone[1]:.2f} ms",
    )
    yield "marks removed meanwhile", f"{gone:,.0f} marks/s", "in one part of ten of the time"


def _reports_ms(folder: Path, thinning: str) -> tuple[tuple[float, float], float]:
    """Report one after another: median and 99th percentile, and marks removed a second."""
    before = filling.count_marks(folder / "bench.db")
    with (
        servers.process(folder, f"--mark-thinning={thinning}") as (url, _),
        httpx.Client(base_url=url, timeout=60) as client,
    ):
        path = f"/v1/streams/{_FEW}/writers/one/note-time"
        taken = []
        began = time.perf_counter()
        while (begun := time.perf_counter()) < began + _REPORTING_S:
            report = {"time": time.time_ns() // 1_000_000, "position": {}}
            client.post(path, json=report).raise_for_status()
            taken.append((time.perf_counter() - begun) * 1e3)
    gone = before - filling.count_marks(folder / "bench.db")
    cuts = statistics.quantiles(taken, n=100)
    return (statistics.median(taken), cuts[98]), gone / _REPORTING_S


def _lookups(url: str) -> Iterator[tuple[str, str, str]]:
    queries: dict[str, tuple[str, _Query]] = {
        "where a time starts and stops": (
            "/marks/at",
            lambda revision: {"time": filling.time_of(revision) + 1},
        ),
        "the window at a position": (
            "/marks/at",
            lambda revision: {"position": _position(revision)},
        ),
        "the mark after a revision": (
            "/marks",
            lambda revision: {"after": revision - 1, "limit": 1},
        ),
    }
    with httpx.Client(timeout=60) as client:
        for name, (path, query) in queries.items():
            few, many = _compared_ms(client, url, path, query)
            yield (
                f"{name}, 10 million marks",
                f"p50 {many:.2f} ms",
                f"{many / few:.2f} of 10 thousand marks' {few:.2f} ms",
            )


def _compared_ms(
    client: httpx.Client, url: str, path: str, query: _Query
) -> tuple[float, float]:
    """Look up at random in both streams in turn: what typical lookups take."""
    taken: dict[str, list[float]] = {stream: [] for stream in _MARKS}
    for _ in range(_LOOKUPS):
        for stream, count in _MARKS.items():
            params = query(random.randrange(1, count))
            begun = time.perf_counter()
            client.get(f"{url}/v1/streams/{stream}{path}", params=params).raise_for_status()
            taken[stream].append((time.perf_counter() - begun) * 1e3)
    return statistics.median(taken[_FEW]), statistics.median(taken[_MANY])


def _position(offset: int) -> str:
    return ",".join(f"{segment}:{offset}" for segment in range(_SEGMENTS))
