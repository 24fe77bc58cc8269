"""Services as they are after months: crowds that report, and marks put straight into SQLite."""

import asyncio
import sqlite3
import time
from contextlib import closing
from itertools import islice
from pathlib import Path

import httpx

from bench import servers
from bench.load import Bulks, Crowd, Generator, Singles

FIRST_TIME = 1_600_000_000_000
STEP_MS = 1_000
_FULL_SPEED, _MOST_S = 10**6, 900
_CREATED_AT_ONCE = 50
_ROWS_A_TRANSACTION = 100_000
_INSERT = (
    "INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms) "
    "VALUES (?, ?, ?, ?, ?, ?)"
)


def create_streams(folder: Path, segments: dict[str, int]) -> Path:
    """Create external streams, and return the database of the service that did it."""
    with servers.service(folder) as url:
        for stream, count in segments.items():
            settings = {"log": "external", "segments": count, "max_future_skew_ms": None}
            path = f"{url}/v1/streams/{stream}"
            httpx.put(path, json=settings).raise_for_status()
    return folder / "bench.db"


async def create_crowd(url: str, crowd: Crowd) -> None:
    """Create the streams of a crowd."""
    settings = {"log": "external", "segments": crowd.segments}
    limit = asyncio.Semaphore(_CREATED_AT_ONCE)
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:

        async def create(at: int) -> None:
            async with limit:
                path = f"/v1/streams/{crowd.stream(at)}"
                (await client.put(path, json=settings)).raise_for_status()

        await asyncio.gather(*(create(at) for at in range(crowd.streams)))


async def let_report(  # noqa: PLR0913 (what a load is made of)
    url: str,
    crowd: Crowd,
    rounds: int,
    *,
    requests: type[Singles | Bulks] = Bulks,
    begin_at: int = 0,
    rate: int = _FULL_SPEED,
) -> int:
    """Let everybody report so many times; tell the number of the next report."""
    generator = Generator(url, requests(crowd), begin_at=begin_at)
    await generator.connect()
    reports = rounds * crowd.streams * crowd.writers
    await generator.run(reports, rate=rate, most_s=_MOST_S)
    await generator.settle()
    generator.close()
    return begin_at + reports


def fill_marks(database: Path, stream: str, count: int, *, segments: int) -> None:
    """Store marks, one a second of event time; revision n has its cut at offset n everywhere."""
    made = time.time_ns() // 1_000_000
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        query = "SELECT key FROM streams WHERE scope = ? AND stream = ?"
        (key,) = connection.execute(query, stream.split("/")).fetchone()
        rows = (
            (key, n, time_of(n), time_of(n), _position(segments, n), made)
            for n in range(1, count + 1)
        )
        while part := list(islice(rows, _ROWS_A_TRANSACTION)):
            with connection:
                connection.executemany(_INSERT, part)


def count_marks(database: Path) -> int:
    """Count the marks of all streams."""
    with closing(sqlite3.connect(database)) as connection:
        count: int = connection.execute("SELECT count(*) FROM marks").fetchone()[0]
    return count


def time_of(revision: int) -> int:
    """Name the lower bound of a mark."""
    return FIRST_TIME + revision * STEP_MS


def _position(segments: int, offset: int) -> str:
    entries = ",".join(f'"{segment}":{offset}' for segment in range(segments))
    return "{" + entries + "}"
