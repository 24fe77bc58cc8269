"""Databases as they look after months: rows put straight into SQLite."""

import json
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import httpx

from bench import servers

FIRST_TIME = 1_600_000_000_000
STEP_MS = 1_000
_DAY_MS = 86_400_000
_A_PAGE = 100
_WRITER = (
    "INSERT INTO writers VALUES (?, ?, 0, 'live', ?, ?, '{}', NULL, 1, 1, NULL, NULL, 0, 0)"
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
    _insert(database, "INSERT INTO marks VALUES (?, ?, ?, ?, ?, ?)", rows)


def fill_writers(
    database: Path, stream: str, count: int, *, segments: int, reports: int
) -> None:
    """Store writers that stand in every segment, each with some reports that it made since."""
    key = _key_of(database, stream)
    _insert(
        database,
        _WRITER,
        (
            (key, f"writer-{n}", FIRST_TIME, _position(segments, 1_000_000 + n))
            for n in range(count)
        ),
    )
    stored = count * reports
    _insert(
        database,
        "INSERT INTO report_pages VALUES (?, ?, ?)",
        (
            (key, page + 1, _page(range(first, min(first + _A_PAGE, stored)), count, segments))
            for page, first in enumerate(range(0, stored, _A_PAGE))
        ),
    )


def copy_stream(database: Path, stream: str, count: int, *, writers: int) -> None:
    """Store copies of a stream, each with some writers that have reported once."""
    key, scope = _key_of(database, stream), stream.partition("/")[0]
    _insert(
        database,
        "INSERT INTO streams (key, scope, stream, stream_id, created_ms, config, topology, "
        "reporters, forgotten_incarnation) SELECT ?, ?, ?, ?, created_ms, config, topology, "
        "reporters, forgotten_incarnation FROM streams WHERE key = ?",
        ((key + n, scope, f"copy-{n}", str(uuid4()), key) for n in range(1, count + 1)),
    )
    _insert(
        database,
        _WRITER,
        (
            (key + n, f"writer-{writer}", FIRST_TIME, _position(1, 1_000_000))
            for n in range(1, count + 1)
            for writer in range(writers)
        ),
    )


def count_marks(database: Path) -> int:
    """Count the marks of all streams."""
    with closing(sqlite3.connect(database)) as connection:
        count: int = connection.execute("SELECT count(*) FROM marks").fetchone()[0]
    return count


def time_of(revision: int) -> int:
    """Name the lower bound of a mark."""
    return FIRST_TIME + revision * STEP_MS


def _page(numbers: range, writers: int, segments: int) -> str:
    return json.dumps(
        [
            [n + 1, f"writer-{n % writers}", FIRST_TIME + n, {n % segments: 2_000_000 + n}]
            for n in numbers
        ]
    )


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
