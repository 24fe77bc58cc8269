"""A database that is full refuses what it cannot store, loses nothing, and is held against nobody."""

import asyncio
from typing import Any

import httpx
import pytest

from controller.configuration import LEAST_DATABASE_BYTES, ServeSettings
from tests.service.in_process import in_process
from tests.service.problems import check_problem

ONE = "/v1/streams/tests/one"
EXTERNAL = {"log": "external", "segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}
FULL = (
    "the database has no room: its disk is full (free some of it), or --max-database-bytes is "
    "reached (raise it, or delete streams)"
)


pytestmark = pytest.mark.only_on("sqlite", "the size of a PostgreSQL database is bounded there")


async def _report(client: httpx.AsyncClient, writer: str, at: int) -> httpx.Response:
    report = {"time": at, "position": {"0": at}}
    return await client.post(f"{ONE}/writers/{writer}/note-time", json=report)


async def _state(client: httpx.AsyncClient) -> tuple[Any, Any]:
    listed = (await client.get(f"{ONE}/writers")).raise_for_status().json()["writers"]
    fields = ("time", "position", "incarnation")
    writers = {one["writer"]: [one[field] for field in fields] for one in listed}
    marks = await client.get(f"{ONE}/marks", params={"limit": 1_000})
    return writers, marks.raise_for_status().json()["marks"]


def _check_refusal(answer: httpx.Response) -> None:
    document = check_problem(answer, 503, "unavailable")
    assert answer.headers["retry-after"] == "1"
    assert document["detail"] == (f"nothing was stored: {FULL}; try again later")


async def _note_until_refused(client: httpx.AsyncClient) -> int:
    """Note times, 200 and then one at once, until none can be stored; return the last one."""
    at, answer = 0, httpx.Response(200)
    while answer.is_success:
        times = range(at + 1, at + 201)
        report = {"stream": "tests/one", "writer": "w"}
        reports = [report | {"time": time, "position": {"0": time}} for time in times]
        answer = await client.post("/v1/note-times", json={"reports": reports})
        at = times[-1] if answer.is_success else at
    refusals = 0
    while refusals < 10:  # a compaction makes room once more
        answer = await _report(client, "w", at + 1)
        if answer.is_success:
            at += 1
        else:
            _check_refusal(answer)
            refusals += 1
    return at


def test_reports_are_refused_and_memory_equals_the_disk(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = ServeSettings(database_url=database_url, max_database_bytes=200_000)

    async def scene() -> None:
        async with in_process(settings) as (_, client):
            (await client.put(ONE, json=EXTERNAL)).raise_for_status()
            at = await _note_until_refused(client)
            assert (await client.get("/readyz")).is_success
            shown = (await client.get("/metrics")).text
            # 200 at once, and ten.
            assert 'reports_total{outcome="unavailable"} 210.0\n' in shown
            in_memory = await _state(client)
            assert in_memory[0] == {"w": [at, {"0": at}, 0]}
        async with in_process(settings) as (_, client):
            assert await _state(client) == in_memory

    asyncio.run(scene())
    errors = [record for record in caplog.records if record.levelname == "ERROR"]
    assert {(error.getMessage(), error.exc_info) for error in errors} == {
        ("the database says: database or disk is full", None),
        (f"transactions fail: {FULL}", None),
    }


def test_the_least_size_that_can_be_set_is_enough_to_be_served(database_url: str) -> None:
    settings = ServeSettings(database_url=database_url, max_database_bytes=LEAST_DATABASE_BYTES)

    async def scene() -> None:
        async with in_process(settings) as (_, client):
            assert (await client.get("/readyz")).is_success

    asyncio.run(scene())
