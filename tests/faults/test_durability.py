"""Durable before the answer, as the system calls show."""

import asyncio
import shutil
import signal
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import LAUNCHER
from tests.service.api import Api
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
