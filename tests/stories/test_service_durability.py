"""Durable before the answer: seen in the system calls, and with a full disk."""

import asyncio
import shutil
import signal
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import LAUNCHER, Api, ServerProcess
from tests.service.system_calls import STRACE, Trace

pytestmark = pytest.mark.only_on("sqlite", "of PostgreSQL, the disk is its own concern")
REQUESTS = 60
NORMAL = f"""
from sqlalchemy import event
from controller.database.sqlite import SqliteDatabase

make_engine = SqliteDatabase._make_engine

def make_careless(self, url):
    engine = make_engine(self, url)
    event.listen(engine, "connect", lambda raw, _: raw.execute("PRAGMA synchronous=NORMAL"))
    return engine

SqliteDatabase._make_engine = make_careless
{LAUNCHER}
"""


def _trace(new_server: NewServer, seen: Path, launcher: str) -> Trace:
    assert shutil.which("strace"), "this test traces system calls: install strace"
    with new_server(launcher=launcher, prefix=(*STRACE, str(seen))) as server:
        with Api(server.url) as api:
            api.create(log="embedded")
        asyncio.run(_ask(server.url))
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(timeout=PATIENCE_S)
    return Trace(seen)


async def _ask(url: str) -> None:
    """Register, append and report at once, each with a marker of its own."""
    path = "/v1/streams/tests/one"
    event = '{"key": "marked-%d", "event_time": 1, "value": "x"}'
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        calls = []
        for number in range(0, REQUESTS, 3):
            calls += [
                client.post(f"{path}/writers/marked-{number}/register"),
                client.post(
                    f"{path}/events",
                    content=event % (number + 1),
                    headers={"content-type": "application/x-ndjson"},
                ),
                client.post(
                    f"{path}/writers/marked-{number + 2}/note-time", json={"time": number}
                ),
            ]
        answers = await asyncio.gather(*calls)
    assert [one.status_code for one in answers] == [200] * REQUESTS


def test_nothing_is_acknowledged_before_it_is_on_disk(
    new_server: NewServer, tmp_path: Path
) -> None:
    trace = _trace(new_server, tmp_path / "seen", LAUNCHER)
    assert sorted(trace.acknowledged) == sorted(f"marked-{n}" for n in range(REQUESTS))
    assert trace.too_early == []


def test_the_trace_tells_a_server_that_does_not_sync(
    new_server: NewServer, tmp_path: Path
) -> None:
    trace = _trace(new_server, tmp_path / "seen", NORMAL)
    assert len(trace.acknowledged) == REQUESTS
    assert len(trace.too_early) == REQUESTS


async def _fill(server: ServerProcess) -> tuple[dict[str, int], list[httpx.Response]]:
    """Note times from eight writers until the disk refused each of them ten times."""
    accepted: dict[str, int] = {}
    refused: list[httpx.Response] = []

    async def write(client: httpx.AsyncClient, name: str) -> None:
        time, refusals = 0, 0
        while refusals < 10:
            time += 1
            report = {"time": time, "position": {"0": time}}
            answer = await client.post(
                f"/v1/streams/tests/one/writers/{name}/note-time", json=report
            )
            if answer.status_code == 200:
                accepted[name] = time
            else:
                refusals += 1
                refused.append(answer)

    async with httpx.AsyncClient(base_url=server.url, timeout=30) as client:
        names = [f"writer-{'x' * 200}-{number}" for number in range(8)]
        await asyncio.gather(*(write(client, name) for name in names))
    return accepted, refused


def test_a_full_disk_answers_503_and_memory_equals_the_disk(new_server: NewServer) -> None:
    with new_server(max_database_bytes=200_000) as server, Api(server.url) as api:
        api.create(mark_resolution_ms=0)
        accepted, refused = asyncio.run(_fill(server))
        assert {one.status_code for one in refused} == {503}
        assert {one.headers["retry-after"] for one in refused} == {"1"}
        assert {one.json()["code"] for one in refused} == {"unavailable"}
        assert "full" in refused[0].json()["detail"]
        in_memory = _state(api)
        stored_times = {name: state["time"] for name, state in in_memory["writers"].items()}
        assert stored_times == accepted
        server.kill()
        server.start()
        assert _state(api) == in_memory


def _state(api: Api) -> dict[str, dict[str, Any]]:
    writers = {
        one["writer"]: {name: one[name] for name in ("time", "position", "incarnation")}
        for one in api.get("writers")["writers"]
    }
    marks = {one["revision"]: one for one in api.get("marks", limit=1_000)["marks"]}
    return {"writers": writers, "marks": marks}


def test_a_full_disk_leaves_reads_and_health_alone(new_server: NewServer) -> None:
    with new_server(max_database_bytes=200_000) as server, Api(server.url) as api:
        api.create()
        asyncio.run(_fill(server))
        assert api.client.get("/readyz").status_code == 200
        assert api.get("watermark")["watermark"] >= 1
