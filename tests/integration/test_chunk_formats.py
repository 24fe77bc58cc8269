"""Chunks of the first format, without append time and writer, are read with those that have them."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pytest

from controller.database import upgrade_database
from controller.log import compaction
from controller.log.compaction import Compactor
from reader_client import StreamClient
from tests.integration import old_databases
from tests.integration.log_api import Event, LogApi, numbered
from tests.integration.log_service import APPEND_MS, LogService, run_with
from tests.integration.sessions import connected
from tests.patience import wait_until
from tests.server import ServerProcess
from tidegauge.wire.columns import EVENT_SCHEMA

pytestmark = pytest.mark.about_sql

CONFIG = (
    '{"segments":1,"log":"embedded","max_segments":null,"scaling":"fixed",'
    '"aggregation_timeout_ms":60000,"hold_limit_ms":600000,"min_writers":0,'
    '"mark_interval_ms":0,"mark_resolution_ms":1000,"mark_retention_ms":null,'
    '"writer_retention_ms":604800000,"max_future_skew_ms":null}'
)
TOPOLOGY = (
    '{"revision":0,"segments":[{"number":0,"low":0.0,"high":1.0,"predecessors":[],'
    '"sealed_length":null}]}'
)
STREAM = (
    "INSERT INTO streams (key, scope, stream, stream_id, created_ms, config, topology) "
    f"VALUES (1, 'tests', 'log', 'the-id', 1795374377626, '{CONFIG}', '{TOPOLOGY}')"
)


def old_chunk(events: list[Event], first: int, literal: str) -> str:
    """A row as it was written before revision 0009."""
    columns = zip(*events, strict=True)
    arrays = [pa.array(column, f.type) for column, f in zip(columns, EVENT_SCHEMA, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=EVENT_SCHEMA)
    message = batch.serialize().to_pybytes()
    greatest = first + len(events) - 1
    data = literal.format(message.hex())
    return (
        "INSERT INTO chunks VALUES "
        f"(1, 0, {first}, {len(events)}, {greatest}, {len(message)}, {data})"
    )


@pytest.fixture
def old_database(tmp_path: Path, database_kind: str, request: pytest.FixtureRequest) -> str:
    """A database of revision 0008 with events 0 to 99 in ten chunks."""
    url = f"sqlite:///{tmp_path}/old.db"
    if database_kind == "postgresql":
        url = request.getfixturevalue("cluster").empty_database()
    literal = "X'{}'" if database_kind == "sqlite" else r"'\x{}'"
    chunks = [old_chunk(numbered(at, 10), at, literal) for at in range(0, 100, 10)]
    old_databases.make(url, "0008", (STREAM, *chunks))
    upgrade_database(url)
    return url


@pytest.fixture
def log(tmp_path: Path, old_database: str) -> Iterator[LogApi]:
    with (
        ServerProcess(tmp_path, database_url=old_database) as server,
        LogApi(server.url) as log,
    ):
        yield log


def test_old_events_are_read_with_new_ones_in_one_answer(log: LogApi) -> None:
    log.register()
    log.append(numbered(100, 5), 1)
    rows = log.read(start=95).table.to_pylist()
    assert [row["event_time"] for row in rows] == list(range(90, 105))
    assert [row["writer"] for row in rows] == [None] * 10 + ["w"] * 5
    assert [row["append_time"] is None for row in rows] == [True] * 10 + [False] * 5
    assert log.start_of(47) == {"0": 47}


def test_old_events_go_by_age_with_the_new_ones_that_follow_them(log: LogApi) -> None:
    with StreamClient(str(log.client.base_url), "tests/log") as client:
        client.configure(retention={"age_ms": 1})
        log.register()
        log.append(numbered(100, 5), 1)
        wait_until(lambda: client.describe().first_cut == {0: 105})


def test_compaction_writes_old_events_anew_together_with_new_ones(old_database: str) -> None:
    async def compact(log: LogService) -> list[Event]:
        await log.register("w")
        await log.append("w", 1, 0, 1, numbered(100, 5))
        await log.append("w", 1, 0, 2, numbered(105, 5), append_time=APPEND_MS + 9)
        with patch.object(compaction, "_FEWEST", 3):
            await Compactor(log.parts.database).compact(1, {0: 110})
        return (await log.read(0))[1]

    assert run_with(old_database, compact) == numbered(0, 110)
    with connected(old_database) as connection:
        rows = connection.exec_driver_sql("SELECT events, format, append_time FROM chunks")
        assert [tuple(row) for row in rows] == [(110, 2, APPEND_MS + 9)]
