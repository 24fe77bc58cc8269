"""Databases as they look after months: rows put straight into SQLite."""

import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path

import httpx

from bench import servers

FIRST_TIME = 1_600_000_000_000
STEP_MS = 1_000
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


def fill_marks(database: Path, stream: str, count: int, *, segments: int) -> None:
    """Store marks, one a second of event time; revision n has its cut at offset n everywhere."""
    made = time.time_ns() // 1_000_000
    key = _key_of(database, stream)
    rows = (
        (key, n, time_of(n), time_of(n), _position(segments, n), made)
        for n in range(1, count + 1)
    )
    _insert(database, _INSERT, rows)


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


def _key_of(database: Path, stream: str) -> int:
    scope, name = stream.split("/")
    query = "SELECT key FROM streams WHERE scope = ? AND stream = ?"
    with closing(sqlite3.connect(database)) as connection:
        key: int = connection.execute(query, (scope, name)).fetchone()[0]
    return key


def _insert(database: Path, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        for some in _parts(rows):
            connection.execute("BEGIN")
            connection.executemany(statement, some)
            connection.execute("COMMIT")


def _parts(rows: Iterable[tuple[object, ...]]) -> Iterator[list[tuple[object, ...]]]:
    part: list[tuple[object, ...]] = []
    for row in rows:
        part.append(row)
        if len(part) == 100_000:
            yield part
            part = []
    yield part
