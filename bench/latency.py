"""From an accepted report to its mark at a long-polling reader, while idle."""

import asyncio
import time
from collections.abc import Iterator
from statistics import quantiles

import httpx

from bench.harness import Row, service, sized

_REPORTS = sized(300)
_PAUSE_S = 0.02


def measure() -> Iterator[Row]:
    """Report now and then, and take the time until the mark is read."""
    with service() as (url, _):
        percentiles = quantiles(asyncio.run(_waits(url)), n=100)
    yield "report to mark, p50", f"{percentiles[49] * 1e3:.1f} ms", "≤ 20 ms"
    yield "report to mark, p99", f"{percentiles[98] * 1e3:.1f} ms", "≤ 60 ms"


async def _waits(url: str) -> list[float]:
    path = f"{url}/v1/streams/bench/latency"
    waits = []
    async with httpx.AsyncClient(timeout=40) as writer, httpx.AsyncClient(timeout=40) as reader:
        settings = {"log": "external", "segments": 1, "mark_interval_ms": 0}
        (await writer.put(path, json=settings)).raise_for_status()
        for revision in range(_REPORTS):
            query = {"after": revision, "wait_ms": 30_000}
            poll = asyncio.create_task(reader.get(f"{path}/marks", params=query))
            await asyncio.sleep(_PAUSE_S)
            started = time.perf_counter()
            report = {"time": 1_700_000_000_000 + revision * 1_000, "position": {"0": revision}}
            noted = asyncio.create_task(
                writer.post(f"{path}/writers/one/note-time", json=report)
            )
            (await poll).raise_for_status()
            waits.append(time.perf_counter() - started)
            (await noted).raise_for_status()
    return waits
