"""The dashboard: what it asks of a service with 0 to 20 tabs, what it costs, how soon it is drawn."""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event

import httpx
import psutil
import uvloop
from playwright.sync_api import Browser, sync_playwright
from websockets.sync.client import connect

from bench import filling, servers
from bench.load import Crowd

_STREAMS = Crowd(1_000, 10, segments=4, named=1, first_ms=1_600_000_000_000)
_WRITERS = Crowd(1, 20_000, segments=4, named=1, first_ms=1_600_000_000_000)
_MANY = Crowd(1, 100_000, segments=4, named=1, first_ms=1_600_000_000_000)
"""They write to the first of the thousand streams."""
_TABS = (0, 1, 5, 20)
_SETTLE_S, _WATCH_S = 5, 20
_RATE = 2_000
_MANY_FROM = 500_000
"""Number of the first report of many writers: later than all that was reported before."""
_REPORTS = _STREAMS.streams * _STREAMS.writers
_LOADS = 5
_ROUNDS = 5
_NOTED = 4
"""How often every writer reports in a round: some seconds of load."""
_OVERVIEW = '{"kind": "overview"}'
_LONG_FRAMES = """
window.frames_ms = [];
new PerformanceObserver((list) => list.getEntries().forEach((one) => frames_ms.push(one.duration)))
    .observe({ type: "long-animation-frame", buffered: true });
"""
"""A browser lists frames of more than 50 ms, from the first script of each until it is painted."""
_PAINT = """() => [
    performance.getEntriesByName("first-contentful-paint")[0].startTime,
    performance.getEntriesByType("navigation").concat(performance.getEntriesByType("resource"))
        .reduce((sum, one) => sum + one.transferSize, 0),
]"""


def measure() -> Iterator[tuple[str, str, str]]:
    """Look at a thousand streams, then at one of many writers."""
    with _shown(_STREAMS) as (url, service, home, process):
        for tabs in _TABS:
            yield _asked(home, process, tabs, _OVERVIEW, "the overview of 1,000 streams")
        yield _throughput(url, service, home)
        yield _painted(home, "", "the overview")
        uvloop.run(filling.let_report(url, _MANY, 1, begin_at=_MANY_FROM))
        with _reporting(url, _STREAMS, 10, begin_at=2 * _MANY_FROM):
            yield _fluent(home, "", "the overview of 1,000 streams")
        with _reporting(url, _MANY, 1, begin_at=3 * _MANY_FROM):
            address = f"?stream={_MANY.stream(0)}"
            yield _fluent(home, address, "a stream of 100,000 writers")
    with _shown(_WRITERS) as (_, _, home, process):
        stream = _WRITERS.stream(0)
        view = f'{{"kind": "stream", "stream": "{stream}"}}'
        for tabs in _TABS:
            yield _asked(home, process, tabs, view, "a stream of 20,000 writers")
        yield _painted(home, f"?stream={stream}", "a stream of 20,000 writers")


class _shown(ExitStack):  # noqa: N801 (a context manager)
    """Serve a crowd, and the dashboard beside it."""

    def __init__(self, crowd: Crowd) -> None:
        super().__init__()
        self._crowd = crowd

    def __enter__(self) -> tuple[str, psutil.Process, str, psutil.Process]:  # type: ignore[override]
        super().__enter__()
        folder = Path(self.enter_context(tempfile.TemporaryDirectory()))
        url, service = self.enter_context(servers.process(folder))
        uvloop.run(filling.create_crowd(url, self._crowd))
        uvloop.run(filling.let_report(url, self._crowd, 2))
        home, process = self.enter_context(servers.dashboard(url))
        return url, service, home, process


class _Tabs:
    """Pages that show something, without a browser: what arrives is thrown away."""

    def __init__(self, home: str, count: int, view: str) -> None:
        self._address = home.replace("http", "ws", 1) + "socket"
        self._view = view
        self._end = Event()
        self._pool = ThreadPoolExecutor(max(count, 1))
        self._count = count

    def __enter__(self) -> None:
        for _ in range(self._count):
            self._pool.submit(self._look)

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._pool.shutdown()

    def _look(self) -> None:
        with connect(self._address) as page:
            page.send(self._view)
            while not self._end.is_set():
                page.recv()


def _asked(
    home: str, process: psutil.Process, tabs: int, view: str, what: str
) -> tuple[str, str, str]:
    with _Tabs(home, tabs, view):
        time.sleep(_SETTLE_S)
        before, used_s, begun = _counts(home), _used_s(process), time.perf_counter()
        time.sleep(_WATCH_S)
        after, share = _counts(home), _used_s(process) - used_s
        seconds = time.perf_counter() - begun
    calls, size = ((b - a) / seconds for a, b in zip(before, after, strict=True))
    share /= seconds
    memory = process.memory_info().rss / 2**20
    return (
        f"{what}, {tabs} tabs",
        f"{calls:.1f} requests/s, {size / 1e3:.0f} KB/s; {share:.1%} of a core, {memory:.0f} MiB",
        "goal: 1 request/s for the overview, 5 %, 100 MiB",
    )


def _counts(home: str) -> tuple[int, int]:
    health = httpx.get(f"{home}healthz", timeout=60).json()
    return sum(health["asked"].values()), health["received_bytes"]


def _used_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    used_s: float = times.user + times.system
    return used_s


def _throughput(url: str, service: psutil.Process, home: str) -> tuple[str, str, str]:
    """Note times while nobody looks, and while twenty do, by turns."""
    took: dict[int, list[float]] = {0: [], 20: []}
    used: dict[int, list[float]] = {0: [], 20: []}
    begin_at = 2 * _REPORTS
    for _ in range(_ROUNDS):
        for tabs in (0, 20):
            with _Tabs(home, tabs, _OVERVIEW):
                time.sleep(_SETTLE_S)
                used_s, begun = _used_s(service), time.perf_counter()
                noting = filling.let_report(url, _STREAMS, _NOTED, begin_at=begin_at)
                begin_at = uvloop.run(noting)
                took[tabs].append(time.perf_counter() - begun)
                used[tabs].append(_used_s(service) - used_s)
    alone, beside = (statistics.median(took[tabs]) for tabs in (0, 20))
    reports = _NOTED * _REPORTS
    costs = (1e6 * statistics.median(used[tabs]) / reports for tabs in (20, 0))
    return (
        "reports, 20 tabs on the overview, against none",
        f"{reports / beside:,.0f}/s, {reports / alone:,.0f}/s; "
        "{:.0f} µs, {:.0f} µs of the service's processor each".format(*costs),
        f"{alone / beside:.2f} times (goal 0.97)",
    )


@contextmanager
def _reporting(url: str, crowd: Crowd, rounds: int, *, begin_at: int) -> Iterator[None]:
    """Let a crowd report beside what is measured, some seconds for longer than that takes."""
    work = filling.let_report(url, crowd, rounds, begin_at=begin_at, rate=_RATE)
    with ThreadPoolExecutor(1) as pool:
        reports = pool.submit(uvloop.run, work)
        yield
        if reports.done():
            sys.exit("the reports ended before what was measured beside them")


@contextmanager
def _browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def _painted(home: str, address: str, what: str) -> tuple[str, str, str]:
    """Open a page with an empty cache."""
    with _browser() as browser:
        paints = [_paint(browser, home + address) for _ in range(_LOADS)]
    paint_ms = statistics.median(one[0] for one in paints)
    return (
        f"{what}: first paint, empty cache",
        f"{paint_ms:.0f} ms, {paints[-1][1] / 1e3:.0f} KB",
        "goal: 200 ms, 150 KB",
    )


def _fluent(home: str, address: str, what: str) -> tuple[str, str, str]:
    """Watch the frames of a page that changes every second."""
    with _browser() as browser:
        page = browser.new_page()
        page.add_init_script(_LONG_FRAMES)
        page.goto(home + address)
        page.wait_for_timeout(1_000 * _SETTLE_S)
        page.evaluate("frames_ms.length = 0")
        page.wait_for_timeout(1_000 * _WATCH_S)
        frames = page.evaluate("frames_ms")
    longest = f", the longest {max(frames):.0f} ms" if frames else ""
    return (
        f"{what}, {_RATE:,} reports/s: frames above 50 ms in {_WATCH_S} s",
        f"{len(frames)}{longest}",
        "goal: none",
    )


def _paint(browser: Browser, address: str) -> tuple[float, float]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(address)
    page.locator("h1").first.wait_for()
    page.wait_for_timeout(1_000)
    paint_ms, size = page.evaluate(_PAINT)
    context.close()
    return paint_ms, size
