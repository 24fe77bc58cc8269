"""Lookups among marks: a few rows however much there is, and right while newer ones are made."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import Connection, create_engine, event, insert, text

from controller.configuration import ServeSettings
from controller.database.statements import replace_rows
from controller.log.codec import encode_chunks
from controller.log.embedded import EmbeddedLog
from controller.log.outcomes import (
    KeyedAnswer,
    LastBatch,
    Transaction,
    list_transactions,
    outcome_row,
    read_last_batches,
)
from controller.log.storage import first_offsets_reaching
from controller.schema import marks as marks_table
from controller.schema import metadata, outcomes
from controller.store.marks import StoredMarks
from controller.store.truncation import Truncation
from tests.postgres import Cluster
from tests.service.in_process import in_process
from tests.service.log_service import batch_of
from tidegauge.topology import Topology

pytestmark = pytest.mark.about_sql

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

_DATA = encode_chunks(batch_of([("a", 10**9, b"")]), writer=None, append_time=0)[0].message
_FILL_CHUNKS = text(
    "INSERT INTO chunks (stream_key, segment, first_offset, events, running_time, size, data, append_time) "
    "SELECT 1, 2 * (n % 2), n - n % 2, 2, n, 0, :data, 0 "
    f"FROM generate_series(0, {2 * CHUNKS - 1}) AS n"
)


@pytest.fixture(scope="module")
def stored(cluster: Cluster) -> Iterator[Connection]:
    """Connect to a database with many marks and chunks of one stream."""
    engine = create_engine(cluster.database().replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        connection.execute(_FILL_MARKS)
        connection.execute(_FILL_CHUNKS, {"data": _DATA})
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
        lambda marks: marks.last(10),
    ],
)
def test_a_lookup_reads_few_rows(
    stored: Connection, look: Callable[[StoredMarks], object]
) -> None:
    with _few_rows_read(stored):
        assert look(StoredMarks(stored, 1))


def test_the_ends_of_segments_are_found_by_reading_few_rows(stored: Connection) -> None:
    with _few_rows_read(stored):
        log = EmbeddedLog.read(stored, 1, Topology.of_equal_ranges(3), Truncation.load(None))
    assert log.tails == {0: 2 * CHUNKS, 1: 0, 2: 2 * CHUNKS}
    assert log.running_times == {0: 2 * CHUNKS - 2, 2: 2 * CHUNKS - 1}


def test_a_time_is_found_in_all_segments_by_one_query_that_reads_few_rows(
    stored: Connection,
) -> None:
    with _few_rows_read(stored) as asked:
        found = first_offsets_reaching(stored, 1, [0, 2], 1_000)
    assert found == {0: 1_000, 2: 1_000}
    assert len(asked) == 1


def test_a_search_among_marks_up_to_a_revision_takes_few_steps_of_sqlite(
    tmp_path: Path,
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'marks.db'}")
    metadata.create_all(engine, [marks_table])
    row = {"stream_key": 1, "upper": 0, "cut": "{}", "created_ms": 0}
    rows = [row | {"revision": n, "lower": n} for n in range(1, MARKS + 1)]
    with engine.connect() as connection:
        connection.execute(insert(marks_table), rows)
        with _few_steps(connection):
            found = StoredMarks(connection, 1, up_to=MARKS).first_from(7_000)
    engine.dispose()
    assert found is not None
    assert found.revision == 7_000


def test_open_transactions_are_found_among_many_outcomes_by_few_steps_of_sqlite(
    tmp_path: Path,
) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'outcomes.db'}")
    metadata.create_all(engine, [outcomes])
    ended = Transaction("", "w", 1, 60_000, 0, "committed", finished_ms=NOW)
    rows = [
        *(outcome_row(1, f"{n}", KeyedAnswer("", {}, NOW)) for n in range(MARKS)),
        *(outcome_row(1, f"{n}", ended._replace(id=f"{n}")) for n in range(MARKS)),
        outcome_row(1, "7", ended._replace(id="7", state="open", finished_ms=None)),
        outcome_row(1, "w", LastBatch(5)),
    ]
    with engine.connect() as connection:
        replace_rows(connection, outcomes, rows)
        with _few_steps(connection):
            (found,) = list_transactions(connection, 1, ["open"])
            assert read_last_batches(connection, 1) == {"w": LastBatch(5)}
    engine.dispose()
    assert (found.id, found.state) == ("7", "open")


@contextmanager
def _few_steps(connection: Connection) -> Iterator[None]:
    """Count the steps of SQLite's machine in this block, by thousands."""
    thousands: list[None] = []
    driver: Any = connection.connection.driver_connection
    driver.set_progress_handler(lambda: thousands.append(None), 1_000)
    yield
    assert len(thousands) < 10


@contextmanager
def _few_rows_read(connection: Connection) -> Iterator[list[tuple[str, Any]]]:
    """Look, after the queries of this block, how many rows they have to read."""
    asked: list[tuple[str, Any]] = []

    @event.listens_for(connection, "before_cursor_execute")
    def remember(_one: object, _cursor: object, query: str, values: Any, *_: object) -> None:
        asked.append((query, values))

    yield asked
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
        async with in_process(settings) as (app, client):
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
