"""Lookups among marks: a few rows however much there is, and right while newer ones are made."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, create_engine, event, text

from controller.configuration import ServeSettings
from controller.log.embedded import EmbeddedLog
from controller.store.marks import StoredMarks
from controller.store.truncation import Truncation
from tests.integration.in_process import in_process
from tests.postgres import Cluster
from tidegauge.topology import Topology

MARKS = 20_000
CHUNKS = 4_000
"""In each of two segments, of two events each."""
FEW = 40
_FILL_MARKS = text(
    "INSERT INTO marks (stream_key, revision, lower, upper, cut, created_ms) "
    "SELECT 1, n, n, CASE WHEN n < 100 THEN n ELSE 1000000 END, '{}', 0 "
    f"FROM generate_series(1, {MARKS}) AS n"
)
"""One writer once noted a time far ahead: from then on all marks have the same upper bound."""

_FILL_CHUNKS = text(
    "INSERT INTO chunks (stream_key, segment, first_offset, events, running_time, size, data) "
    "SELECT 1, 2 * (n % 2), n - n % 2, 2, n, 0, '' "
    f"FROM generate_series(0, {2 * CHUNKS - 1}) AS n"
)


@pytest.fixture(scope="module")
def stored(cluster: Cluster) -> Iterator[Connection]:
    """Connect to a database with many marks and chunks of one stream."""
    engine = create_engine(cluster.database().replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        connection.execute(_FILL_MARKS)
        connection.execute(_FILL_CHUNKS)
        connection.execute(text("ANALYZE marks, chunks"))
        yield connection
    engine.dispose()


def _most_rows(plan: dict[str, object]) -> int:
    """Find the step of a plan that read most rows."""
    steps = plan.get("Plans", [])
    assert isinstance(steps, list)
    return max([int(str(plan["Actual Rows"])), *(_most_rows(one) for one in steps)])


@pytest.mark.parametrize(
    "look",
    [
        lambda marks: marks.newest,
        lambda marks: marks.first_from(10_000),
        lambda marks: marks.newest_with_upper_below(50),
        lambda marks: marks.newest_with_upper_below(2_000_000),
        lambda marks: marks.after(10_000, 1),
        lambda marks: marks[10_000],
    ],
)
def test_a_lookup_reads_few_rows(
    stored: Connection, look: Callable[[StoredMarks], object]
) -> None:
    with _few_rows_read(stored):
        assert look(StoredMarks(stored, 1))


def test_the_ends_of_segments_are_found_by_reading_few_rows(stored: Connection) -> None:
    with _few_rows_read(stored):
        log = EmbeddedLog.visit(stored, 1, Topology.of_equal_ranges(3), Truncation.load(None))
    assert log.tails == {0: 2 * CHUNKS, 1: 0, 2: 2 * CHUNKS}
    assert log.running_times == {0: 2 * CHUNKS - 2, 2: 2 * CHUNKS - 1}


@contextmanager
def _few_rows_read(connection: Connection) -> Iterator[None]:
    """Look, after the queries of this block, how many rows they have to read."""
    asked: list[tuple[str, Any]] = []

    @event.listens_for(connection, "before_cursor_execute")
    def remember(_one: object, _cursor: object, query: str, values: Any, *_: object) -> None:
        asked.append((query, values))

    yield
    event.remove(connection, "before_cursor_execute", remember)
    assert asked
    for query, values in asked:
        explain = f"EXPLAIN (ANALYZE, FORMAT JSON) {query}"
        found = connection.exec_driver_sql(explain, values).scalar_one()
        (explained,) = found if isinstance(found, list) else json.loads(found)
        assert _most_rows(explained["Plan"]) <= FEW, explained


ONE = "/v1/streams/tests/one"
NOW = 1_700_000_000_000


async def _note(client: httpx.AsyncClient, time: int, position: dict[str, int]) -> None:
    report = {"time": time, "position": position}
    answer = await client.post(f"{ONE}/writers/w/note-time", json=report)
    assert answer.is_success, answer.text


def test_a_position_is_looked_up_while_a_partition_is_added(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        settings = ServeSettings(database_url=cluster.database())
        async with in_process(settings, address="http://127.0.0.1:1") as (app, client):
            wanted = {
                "log": "external",
                "segments": 1,
                "max_segments": 2,
                "mark_interval_ms": 0,
            }
            (await client.put(ONE, json=wanted)).raise_for_status()
            await _note(client, NOW, {"0": 1})
            read = app.parts.database.read

            async def read_later(*given: Any, **more: Any) -> Any:
                monkeypatch.setattr(app.parts.database, "read", read)
                await _note(client, NOW + 1_000, {"0": 1, "1": 1})
                return await read(*given, **more)

            monkeypatch.setattr(app.parts.database, "read", read_later)
            found = await client.get(f"{ONE}/marks/at", params={"position": "0:1"})
            assert found.raise_for_status().json()["passed"]["revision"] == 1

    asyncio.run(scene())
