"""Probes tell the truth, with real faults: locks, lost files, stuck batches, dead tasks, signals."""

import asyncio
import fcntl
import json
import re
import signal
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from controller.configuration import ServeSettings
from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.service.api import Api
from tests.service.in_process import in_process
from tests.service.sessions import connected, write_lock
from tests.tokens import Tokens

NOW = 1_700_000_000_000
READ_LOCKS_AT, READ_LOCKS = 123, 5
"""Where SQLite's readers lock the ``-shm`` file, according to its documentation."""
SLOW_START = """
import time
from pathlib import Path
from controller.streams.registry import Registry

restore = Registry.restore_all

async def restore_slowly(self):
    await restore(self)
    await self._database.read(lambda _: wait())

def wait():
    while not Path("{folder}/go").exists():
        time.sleep(0.02)

Registry.restore_all = restore_slowly
"""
BROKEN_START = """
from controller.streams.registry import Registry

async def fail(self):
    raise RuntimeError("seeded")

Registry.restore_all = fail
"""
MORTAL_CLOCK = """
from controller.clocks import ListeningClock

def stamp(self, **_):
    raise RuntimeError("seeded")

ListeningClock.stamp = stamp
"""
MORTAL_SEQUENCER = """
from controller.commit.sequencer import Sequencer

async def take(self):
    raise RuntimeError("seeded")

Sequencer._take = take
"""
MORTAL_GUARD = """
from controller.access.changes import Rereading

def check(self):
    raise RuntimeError("seeded")

Rereading.check = check
"""
Reasons = list[str] | None


def _probe(server: ServerProcess, path: str) -> Reasons:
    """Ask; None is all right."""
    answer = httpx.get(f"{server.url}{path}", timeout=PATIENCE_S)
    if answer.status_code == 200:
        assert answer.json() == {"status": "ok"}
        return None
    problem = answer.json()
    assert answer.status_code == problem["status"] == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem["code"] == "unhealthy"
    assert problem["detail"] == "; ".join(problem["reasons"])
    reasons: list[str] = problem["reasons"]
    return reasons


def _wait_for_reasons(server: ServerProcess, path: str) -> list[str]:
    heard: list[Reasons] = []

    def is_unwell() -> bool:
        heard.append(_probe(server, path))
        return heard[-1] is not None

    wait_until(is_unwell)
    return heard[-1] or []


@contextmanager
def _launched(server: ServerProcess) -> Iterator[None]:
    """Start a server that will not be ready, and end it."""
    server.launch()
    try:
        with httpx.Client(base_url=server.url) as client:
            wait_until(lambda: _answers(client))
        yield
    finally:
        if server.process.poll() is None:
            server.kill()


@pytest.fixture(scope="module")
def well(new_server: NewServer) -> Iterator[ServerProcess]:
    """A server for tests that leave it as it was."""
    with new_server() as server:
        yield server


def test_a_server_that_serves_is_alive_and_ready(well: ServerProcess) -> None:
    assert _probe(well, "/healthz") is None
    assert _probe(well, "/readyz") is None


def test_many_may_ask_at_once_again_and_again(database_url: str) -> None:
    async def scene() -> list[str]:
        async with in_process(ServeSettings(database_url=database_url)) as (app, _):

            async def ask_twice() -> list[str]:
                health = app.parts.health
                return [*await health.obstacles(), *await health.obstacles()]

            one, other = await asyncio.gather(ask_twice(), ask_twice())
            return one + other

    assert asyncio.run(scene()) == []


def test_a_batch_that_comes_to_no_end_makes_it_dead_until_it_does(
    new_server: NewServer,
) -> None:
    with new_server(max_stall_ms=300) as server:
        with write_lock(server.database_url):
            for path in ("/healthz", "/readyz"):
                (reason,) = _wait_for_reasons(server, path)
                pattern = r"a batch of changes has not come to an end for \d+\.\d s"
                assert re.fullmatch(pattern, reason)
        wait_until(lambda: _probe(server, "/readyz") is None)
        assert _probe(server, "/healthz") is None


def test_a_lock_of_another_process_does_not_hold_up_the_event_loop(
    well: ServerProcess,
) -> None:
    with Api(well.url) as api:
        api.create()
        for step in range(20):
            api.note("w", NOW + step)
        noting = threading.Thread(target=lambda: api.note("w", NOW + 100))
        with write_lock(well.database_url):
            noting.start()
            for _ in range(20):
                assert _probe(well, "/healthz") is None
            assert noting.is_alive()
        noting.join()
        assert api.get("watermark")["watermark"] == NOW + 100


def test_a_postgresql_that_is_away_makes_it_not_ready_until_it_is_back(
    tmp_path: Path, own_cluster: Cluster
) -> None:
    with (
        ServerProcess(
            tmp_path, database_url=own_cluster.database(), lease_ms=500, log_format="json"
        ) as server,
        Api(server.url) as api,
    ):
        api.create()
        own_cluster.stop()
        gone = "the database cannot be read; the log says why"
        assert gone in (_probe(server, "/readyz") or [])
        assert _probe(server, "/healthz") is None
        assert str(own_cluster.directory) in server.log.read_text()
        held = "tidegauge_holds_database"
        wait_until(lambda: f"{held} 0.0\n" in api.client.get("/metrics").text)
        _assert_told_once(server)
        own_cluster.start()
        wait_until(lambda: f"{held} 1.0\n" in api.client.get("/metrics").text)
        wait_until(lambda: _probe(server, "/readyz") is None)


def _assert_told_once(server: ServerProcess) -> None:
    """However often something is tried in vain, the log has a line for each reason."""
    lines = [
        json.loads(line) for line in server.log.read_text().splitlines() if line[:1] == "{"
    ]
    messages = [line["message"] for line in lines if line["level"] in {"warning", "error"}]
    assert messages
    assert len(set(messages)) == len(messages)
    assert not any("exception" in line for line in lines)


@pytest.mark.only_on("sqlite", "readers of PostgreSQL wait for no lock of a file")
def test_a_database_that_another_process_locks_makes_it_not_ready(
    well: ServerProcess,
) -> None:
    memory = well.database.with_name(well.database.name + "-shm")
    with memory.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, READ_LOCKS, READ_LOCKS_AT)
        assert _probe(well, "/readyz") == ["the database has not answered for 2 s"]
        assert _probe(well, "/healthz") is None
    wait_until(lambda: _probe(well, "/readyz") is None)


@pytest.mark.only_on("sqlite", "PostgreSQL keeps its own files")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_database_file_that_was_lost_makes_it_not_ready(
    server: ServerProcess, tmp_path: Path, *, replaced: bool
) -> None:
    server.database.rename(tmp_path / "elsewhere.db")
    if replaced:
        with closing(sqlite3.connect(server.database)) as other:
            other.execute("CREATE TABLE t (x)")
    for _ in range(2):
        reasons = _probe(server, "/readyz")
        assert reasons == ["the database is not the one that was opened; the log says why"]
    assert str(server.database) not in str(reasons)
    said = f"{server.database} was removed or replaced while it was served"
    assert server.log.read_text().count(f"does not answer as it should: {said}") == 1
    assert _probe(server, "/healthz") is None
    server.database.unlink(missing_ok=True)
    (tmp_path / "elsewhere.db").rename(server.database)
    assert _probe(server, "/readyz") is None


def test_another_schema_makes_it_not_ready(well: ServerProcess) -> None:
    with connected(well.database_url) as other:
        version = other.execute(text("SELECT version_num FROM alembic_version")).scalar_one()
    _set_version(well, "9999")
    assert _probe(well, "/readyz") == [
        "the database is not the one that was opened; the log says why"
    ]
    assert "has schema version 9999" in well.log.read_text()
    _set_version(well, version)
    assert _probe(well, "/readyz") is None


def _set_version(server: ServerProcess, version: str) -> None:
    with connected(server.database_url) as other:
        change = text("UPDATE alembic_version SET version_num = :version")
        other.execute(change, {"version": version})


def test_while_streams_are_read_back_it_is_alive_but_not_ready(
    server: ServerProcess, api: Api
) -> None:
    api.create()
    server.stop()
    launcher = SLOW_START.format(folder=server.directory) + LAUNCHER
    slow = ServerProcess(server.directory, database_url=server.database_url, launcher=launcher)
    with _launched(slow), Api(slow.url) as calls:
        assert _probe(slow, "/healthz") is None
        assert _probe(slow, "/readyz") == ["the service is reading its streams back"]
        for _ in range(3):
            early = calls.client.post(
                f"{calls.path}/writers/w/note-time", json={"time": NOW, "position": {}}
            )
            assert (early.status_code, early.json()["code"]) == (503, "unavailable")
            assert early.headers["retry-after"] == "1"
        assert calls.client.get("/metrics").status_code == 200
        (server.directory / "go").touch()
        wait_until(lambda: _probe(slow, "/readyz") is None)
        assert calls.note("w", NOW)["watermark"] == NOW


def test_stopped_while_streams_are_read_back_it_ends(
    new_server: NewServer, tmp_path: Path
) -> None:
    slow = new_server(launcher=SLOW_START.format(folder=tmp_path) + LAUNCHER)
    with _launched(slow):
        slow.process.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        assert slow.process.wait(timeout=PATIENCE_S) == 0


def test_a_start_that_fails_ends_the_process(new_server: NewServer) -> None:
    broken = new_server(launcher=BROKEN_START + LAUNCHER)
    said = broken.refusal()
    assert "RuntimeError: seeded" in said
    assert "the service could not start; its log says why" in said


def test_after_sigterm_it_is_not_ready_but_serves_while_the_delay_lasts(
    new_server: NewServer,
) -> None:
    with new_server(shutdown_delay_ms=600_000) as server, Api(server.url) as api:
        api.create()
        server.process.send_signal(signal.SIGTERM)
        assert _wait_for_reasons(server, "/readyz") == ["the service is shutting down"]
        assert _probe(server, "/healthz") is None
        assert api.note("v", NOW)["state"] == "active"
        assert server.process.poll() is None


def test_when_the_delay_after_sigterm_is_over_it_answers_who_waits_and_ends(
    new_server: NewServer,
) -> None:
    with new_server(shutdown_delay_ms=200) as server:
        with Api(server.url) as api:
            api.create()
        answers: list[Any] = []
        polling = threading.Thread(
            target=lambda: answers.append(_poll(server.url, wait_ms=30_000))
        )
        polling.start()
        server.wait_for_waiting(1)
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE_S) == 0
        polling.join()
        assert answers == [[]]


def _poll(url: str, *, wait_ms: int) -> Any:
    with Api(url) as api:
        return api.get("marks", after=1, wait_ms=wait_ms)["marks"]


@pytest.mark.parametrize(
    ("defect", "reason"),
    [
        (MORTAL_CLOCK, "stamping listening time has ended; the log says why"),
        (MORTAL_SEQUENCER, "the sequencer has ended; the log says why"),
        (MORTAL_GUARD, "reading files again has ended; the log says why"),
    ],
)
def test_work_that_ended_in_the_background_makes_it_dead(
    new_server: NewServer, tmp_path: Path, defect: str, reason: str
) -> None:
    tokens: Any = {"tokens": Tokens(tmp_path).file} if defect is MORTAL_GUARD else {}
    mortal = new_server(launcher=defect + LAUNCHER, **tokens)
    with _launched(mortal), httpx.Client(base_url=mortal.url, timeout=1) as client:
        if defect is MORTAL_SEQUENCER:
            with pytest.raises(httpx.ReadTimeout):
                client.put("/v1/streams/tests/one", json={"log": "external"})
        for path in ("/healthz", "/readyz"):
            assert _wait_for_reasons(mortal, path) == [reason]
        assert mortal.log.read_text().count("RuntimeError: seeded") == 1


def test_a_process_that_stands_still_answers_no_probe(well: ServerProcess) -> None:
    well.process.send_signal(signal.SIGSTOP)
    with pytest.raises(httpx.ReadTimeout):
        httpx.get(f"{well.url}/healthz", timeout=0.5)
    well.process.send_signal(signal.SIGCONT)
    wait_until(lambda: _probe(well, "/healthz") is None)


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code > 0
    except httpx.TransportError:
        return False
