"""100 000 writers that report every ten seconds: of one stream, and of 10 000 streams."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import psutil
import uvloop

from bench import filling, servers
from bench.load import Bulks, Crowd, Generator, Singles

_RATE = 10_000
_SECONDS, _MOST_S = 20, 120
_WATCHED = 20


class Outcome(NamedTuple):
    """What one run measured, of the service where nothing else is said."""

    cores: float
    rate: float  # reports a second
    late_s: float  # by how much the generator fell behind at most
    delays_ms: list[float]  # from the report that decided a mark to a reader, sorted
    megabytes: float
    reports: int  # sent so far, by this run and those before


def measure() -> Iterator[tuple[str, str, str]]:
    """Load the service with each crowd, with one report a request and with many.

    Before that everybody reports so often that reports of before are given up as fast as others
    come, and once alone, so that the service knows everybody's requests, as for ever after.
    """
    first_ms = time.time_ns() // 1_000_000
    for crowd, rounds in (
        (Crowd(1, 100_000, segments=64, named=1, first_ms=first_ms), 3),
        (Crowd(1, 100_000, segments=64, named=64, first_ms=first_ms), 3),
        (Crowd(10_000, 10, segments=4, named=1, first_ms=first_ms, together=True), 9),
        (Crowd(10_000, 10, segments=4, named=1, first_ms=first_ms), 9),
    ):
        with (
            tempfile.TemporaryDirectory() as name,
            servers.process(Path(name)) as (url, process),
        ):
            uvloop.run(filling.create_crowd(url, crowd))
            reports = uvloop.run(filling.let_report(url, crowd, rounds))
            alone = filling.let_report(url, crowd, 1, requests=Singles, begin_at=reports)
            reports = uvloop.run(alone)
            for requests in (Singles(crowd), Bulks(crowd)):
                outcome = uvloop.run(_load(url, process, crowd, requests, reports))
                reports = outcome.reports
                yield _row(crowd, requests.per_request, outcome)


def _row(crowd: Crowd, per_request: int, outcome: Outcome) -> tuple[str, str, str]:
    p50 = statistics.median(outcome.delays_ms)
    p99 = outcome.delays_ms[int(len(outcome.delays_ms) * 0.99)]
    what = (
        f"{crowd.streams:,} streams of {crowd.writers:,} writers and {crowd.segments} segments, "
        f"{crowd.named} named{', together' if crowd.together else ''}; "
        f"{per_request} reports a request"
    )
    measured = (
        f"{outcome.rate:,.0f} reports/s with {outcome.cores:.2f} cores, "
        f"{outcome.megabytes:,.0f} MB; sent {outcome.late_s:.2f} s late at most"
    )
    marks = f"marks: p50 {p50:.0f} ms, p99 {p99:.0f} ms of {len(outcome.delays_ms)}"
    return what, measured, f"{marks} (goals: < 1 core, ≤ 100 ms)"


async def _load(
    url: str, process: psutil.Process, crowd: Crowd, requests: Singles | Bulks, reports: int
) -> Outcome:
    generator = Generator(url, requests, begin_at=reports)
    await generator.connect()
    seen: list[tuple[float, int, int]] = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        watchers = [
            asyncio.create_task(_watch(client, crowd, at, seen))
            for at in range(0, crowd.streams, max(1, crowd.streams // _WATCHED))
        ]
        before, sent, begun = process.cpu_times(), len(generator.sent), time.perf_counter()
        await generator.run(_RATE * _SECONDS, rate=_RATE, most_s=_MOST_S)
        seconds, after = time.perf_counter() - begun, process.cpu_times()
        await generator.settle()
        megabytes = process.memory_info().rss / 1e6
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
    generator.close()
    delays_s = (
        when - generator.sent[crowd.deciding(stream, lower)] for when, stream, lower in seen
    )
    return Outcome(
        cores=(after.user + after.system - before.user - before.system) / seconds,
        rate=(len(generator.sent) - sent) / seconds,
        late_s=generator.most_late,
        delays_ms=sorted(one * 1e3 for one in delays_s),
        megabytes=megabytes,
        reports=len(generator.sent),
    )


async def _watch(
    client: httpx.AsyncClient, crowd: Crowd, at: int, seen: list[tuple[float, int, int]]
) -> None:
    """Read the marks of a stream as they come: when, the stream, and their lower bounds."""
    path = f"/v1/streams/{crowd.stream(at)}"
    revision = (await client.get(path)).raise_for_status().json()["revision"]
    while True:
        query = {"after": revision, "wait_ms": 30_000}
        answer = await client.get(f"{path}/marks", params=query)
        now = time.perf_counter()
        for mark in answer.raise_for_status().json()["marks"]:
            seen.append((now, at, mark["lower"]))
            revision = mark["revision"]
