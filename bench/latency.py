"""From an accepted report to its mark at a long-polling reader, while idle."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

from bench import servers

_REPORTS = 300
_PAUSE_S = 0.02


def measure() -> Iterator[tuple[str, str, str]]:
    """Report now and then, and take the time until the mark is read."""
    with tempfile.TemporaryDirectory() as folder, servers.service(Path(folder)) as url:
        waits = sorted(asyncio.run(_waits(url)))
    p50, p99 = statistics.median(waits), waits[int(len(waits) * 0.99)]
    yield "report to mark, p50", f"{p50 * 1e3:.1f} ms", "goal ≤ 20 ms"
    yield "report to mark, p99", f"{p99 * 1e3:.1f} ms", "goal ≤ 60 ms"


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
