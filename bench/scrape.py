"""A scrape of a service with many streams: what it costs, and whom it makes wait."""

import statistics
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import psutil
import uvloop

from bench import filling, servers
from bench.load import Crowd

_CROWD = Crowd(10_000, 10, segments=4, named=1, first_ms=1_600_000_000_000)
_SCRAPES = 10
_ASKING_S = 5


def measure() -> Iterator[tuple[str, str, str]]:
    """Fill a database, serve it, and scrape it again and again."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with servers.service(folder) as url:
            uvloop.run(filling.create_crowd(url, _CROWD))
            uvloop.run(filling.let_report(url, _CROWD, 1))
        with (
            servers.process(folder) as (url, process),
            httpx.Client(base_url=url, timeout=60) as client,
        ):
            lines = len(_scrape(client).splitlines())
            seconds = _processor_seconds(client, process)
            alone = _answers_ms(url, scraping=False)
            beside = _answers_ms(url, scraping=True)
    yield (
        f"a scrape, {_CROWD.streams:,} streams of {_CROWD.writers} writers",
        f"{seconds * 1e3:.0f} ms of a processor, {lines:,} lines",
        f"{seconds / 15:.1%} of a core when scraped every 15 s",
    )
    yield (
        "/healthz while one scrape follows another, p50 and longest",
        f"{beside[0]:.1f} ms, {beside[1]:.0f} ms",
        f"without a scrape: {alone[0]:.1f} ms, {alone[1]:.0f} ms",
    )


def _scrape(client: httpx.Client) -> str:
    return client.get("/metrics").raise_for_status().text


def _processor_seconds(client: httpx.Client, process: psutil.Process) -> float:
    """Take the mean of some scrapes, less what the service does anyhow."""
    spent = []
    for work in (
        lambda: time.sleep(_SCRAPES / 5),
        lambda: [_scrape(client) for _ in range(_SCRAPES)],
    ):
        before, begun = process.cpu_times(), time.perf_counter()
        work()
        after, seconds = process.cpu_times(), time.perf_counter() - begun
        used = after.user + after.system - before.user - before.system
        spent.append((used, seconds))
    (idle, idle_s), (used, seconds) = spent
    return (used - idle / idle_s * seconds) / _SCRAPES


def _answers_ms(url: str, *, scraping: bool) -> tuple[float, float]:
    """Ask something small again and again, perhaps while others scrape: median and longest."""
    taken = []
    until = time.perf_counter() + _ASKING_S
    with httpx.Client(base_url=url) as client, ThreadPoolExecutor(1) as other:
        scrapes = other.submit(_scrape_until, url, until) if scraping else None
        while (begun := time.perf_counter()) < until:
            client.get("/healthz").raise_for_status()
            taken.append((time.perf_counter() - begun) * 1e3)
        if scrapes is not None:
            scrapes.result()
    return statistics.median(taken), max(taken)


def _scrape_until(url: str, until: float) -> None:
    with httpx.Client(base_url=url, timeout=60) as client:
        while time.perf_counter() < until:
            _scrape(client)
