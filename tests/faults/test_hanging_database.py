"""A database that hangs without closing a connection keeps no caller waiting, and loses nothing."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from sqlalchemy import Connection, text

from tests.databases import open_database
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.controllers import LEASE_MS, NOW, Controllers, controllers, create, note
from tidegauge.errors import OutcomeUnknownError, UnavailableError

STREAMS = ("t/a", "t/b")
READS = (
    "/v1/streams",
    "/v1/streams/t/a",
    "/v1/streams/t/a/watermark",
    "/v1/streams/t/b/watermark",
    "/v1/streams/t/a/marks",
    "/v1/streams/t/a/writers",
    "/v1/streams/t/b/writers",
    "/v1/reader-groups",
    "/v1/reader-groups/t/group",
    "/v1/reader-groups/t/group/state",
)
PROCESS = "SELECT pg_backend_pid()"
WAITING = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


@pytest.fixture
def two(
    own_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Controllers]:
    lease_ms = getattr(request, "param", LEASE_MS)
    with controllers(own_cluster, tmp_path, 2, lease_ms=lease_ms) as both:
        create(both.servers[0].url, *STREAMS)
        yield both


def _report(server: ServerProcess, stream: str, writer: str) -> tuple[str, str, httpx.Response]:
    path = f"{server.url}/v1/streams/{stream}/writers/{writer}/note-time"
    body = {"time": NOW + 2, "position": {"0": 2}}
    return stream, writer, httpx.post(path, json=body, timeout=PATIENCE_S)


def _accepts(server: ServerProcess, stream: str) -> bool:
    return note(server.url, stream, 3).status_code == 200


def _writers(server: ServerProcess, stream: str) -> set[str]:
    answer = httpx.get(f"{server.url}/v1/streams/{stream}/writers", timeout=PATIENCE_S)
    return {one["writer"] for one in answer.raise_for_status().json()["writers"]}


def test_a_frozen_database_keeps_no_caller_waiting_and_loses_no_report(
    own_cluster: Cluster, two: Controllers
) -> None:
    for stream in STREAMS:
        assert note(two.servers[0].url, stream, 1).status_code == 200
    holder = two.servers[0]
    places = [(holder, stream) for stream in STREAMS]
    with ThreadPoolExecutor(32) as threads, own_cluster.frozen():
        asked = []
        for number in range(3):
            asked += [
                threads.submit(_report, server, stream, f"w-{server.port}-{number}")
                for server, stream in places
            ]
            time.sleep(0.05)  # who comes later waits behind the transaction of those before
        reports = [one.result() for one in asked]
        urls = [holder.url + path for path in READS]
        reads = list(threads.map(lambda url: httpx.get(url, timeout=PATIENCE_S), urls))
    codes = {answer.status_code: answer.json()["code"] for _, _, answer in reports}
    assert codes.items() <= {502: "outcome_unknown", 503: "unavailable"}.items()
    for read in reads:
        assert (read.url, read.status_code) == (read.url, 503)
        assert read.json()["code"] == "unavailable"
        assert read.headers["retry-after"] == "1"

    for stream in STREAMS:
        wait_until(lambda stream=stream: _accepts(two.holder, stream))  # type: ignore[misc]
    staying = two.holder
    refused = {
        (stream, writer) for stream, writer, answer in reports if answer.status_code == 503
    }
    for stream in STREAMS:
        writers = _writers(staying, stream)
        assert "w" in writers
        assert not {(stream, writer) for writer in writers} & refused


def test_who_waits_behind_a_lock_is_refused_and_what_it_asked_for_is_not_done_later(
    two: Controllers,
) -> None:
    holder = two.servers[0]
    assert note(holder.url, "t/a", 1).status_code == 200
    with (
        ThreadPoolExecutor(8) as threads,
        two.connect() as connection,
        connection.transaction(),
    ):
        connection.execute("LOCK TABLE changelog")
        first = threads.submit(_report, holder, "t/a", "first")
        wait_until(lambda: two.query(WAITING) == [(1,)])
        later = [threads.submit(_report, holder, "t/a", f"later-{at}") for at in range(4)]
        statuses = [one.result()[2].status_code for one in (first, *later)]
    assert statuses == [502, 503, 503, 503, 503]
    wait_until(partial(_accepts, holder, "t/a"))
    assert _writers(holder, "t/a") == {"w"}


def _hangs(server: ServerProcess, path: str) -> bool:
    try:
        httpx.get(server.url + path, timeout=0.2)
    except httpx.ReadTimeout:
        return True
    return False


def _queue(server: ServerProcess) -> int:
    found = re.search(r'tidegauge_queue_length\{queue="changes"\} (\d+)', server.metrics())
    assert found is not None
    return int(found[1])


def _listens(server: ServerProcess) -> bool:
    try:
        httpx.get(server.url + "/healthz", timeout=PATIENCE_S)
    except httpx.TransportError:
        return False
    return True


@pytest.mark.parametrize("two", [3_000], indirect=True)
def test_a_signal_answers_who_waits_for_a_frozen_database_ends_and_says_what_is_undone(
    own_cluster: Cluster, two: Controllers
) -> None:
    holder, other = two.servers
    assert note(holder.url, "t/a", 1).status_code == 200
    with ThreadPoolExecutor(8) as threads, own_cluster.frozen():
        first = threads.submit(_report, holder, "t/a", "first")
        wait_until(partial(_hangs, holder, "/v1/streams/t/a/watermark"))
        later = [threads.submit(_report, holder, "t/a", f"later-{at}") for at in range(3)]
        wait_until(lambda: _queue(holder) >= len(later))
        holder.process.send_signal(signal.SIGTERM)
        assert holder.process.wait(timeout=PATIENCE_S) == 0
        statuses = [one.result()[2].status_code for one in (first, *later)]
    assert statuses == [502, 503, 503, 503]
    log = holder.log.read_text()
    assert re.findall("ended without the database.* last changes, [0-9]+ were not stored", log)
    assert "Traceback" not in log
    wait_until(partial(_accepts, other, "t/a"))
    assert _writers(other, "t/a") <= {"w", "first"}  # of the first nobody knows


def test_a_second_signal_ends_it_at_once_while_the_database_is_frozen(
    own_cluster: Cluster, two: Controllers
) -> None:
    server = two.servers[0]
    with own_cluster.frozen():
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: not _listens(server))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE_S) == -signal.SIGTERM
    assert "ended without the database" not in server.log.read_text()


def test_what_a_server_was_sent_before_it_was_given_up_is_not_carried_out_behind_a_read(
    own_cluster: Cluster,
) -> None:
    async def run() -> None:
        database = open_database(own_cluster.database())
        database.timeout_s = 0.5
        backend: int = await database.change(lambda one: one.scalar(text(PROCESS)))
        os.kill(backend, signal.SIGSTOP)
        try:
            with pytest.raises(OutcomeUnknownError):
                await database.write(_insert, rows=1)
            with pytest.raises(UnavailableError):
                await database.read(_count)
        finally:
            os.kill(backend, signal.SIGCONT)
        try:
            assert await database.read(_count, patient=True) == 0
            assert await database.change(_count) == 0
        finally:
            database.close()

    asyncio.run(run())


def _insert(connection: Connection) -> None:
    connection.execute(text("INSERT INTO listening VALUES (1, 0)"))


def _count(connection: Connection) -> int:
    count: int = connection.execute(text("SELECT count(*) FROM listening")).scalar_one()
    return count
