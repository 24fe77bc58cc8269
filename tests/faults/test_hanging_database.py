"""A database that hangs without closing a connection keeps no caller waiting, and loses nothing."""

import asyncio
import fcntl
import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
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
from tests.service.problems import check_problem
from tidegauge.errors import OutcomeUnknownError, UnavailableError

STREAM = "/v1/streams/t/a"
READ_LOCKS_AT, READ_LOCKS = 123, 5
"""Where SQLite's readers lock the ``-shm`` file, according to its documentation."""
READS = (
    "/v1/streams",
    STREAM,
    f"{STREAM}/watermark",
    f"{STREAM}/marks",
    f"{STREAM}/writers",
    "/v1/reader-groups",
    "/v1/reader-groups/t/group",
    "/v1/reader-groups/t/group/state",
)


@pytest.fixture
def two(
    own_cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Controllers]:
    """Two controllers, of which the first one holds the database, with a stream that 'w' noted."""
    lease_ms = getattr(request, "param", LEASE_MS)
    with controllers(own_cluster, tmp_path, 2, lease_ms=lease_ms) as both:
        url = both.servers[0].url
        create(url, "t/a")
        note(url, "t/a", 1).raise_for_status()
        yield both


class Callers:
    """Writers that report at once, and what each of them is answered."""

    def __init__(self, server: ServerProcess) -> None:
        self._server, self._threads = server, ThreadPoolExecutor(16)
        self._answers: dict[str, Future[httpx.Response]] = {}

    def report(self, *writers: str) -> None:
        for writer in writers:
            body = {"time": NOW + 2, "position": {"0": 2}}
            url = f"{self._server.url}{STREAM}/writers/{writer}/note-time"
            answer = self._threads.submit(httpx.post, url, json=body, timeout=PATIENCE_S)
            self._answers[writer] = answer

    def statuses(self) -> dict[str, int]:
        return {writer: answer.result().status_code for writer, answer in self._answers.items()}


def _known(server: ServerProcess) -> set[str]:
    """Wait until the service takes reports again, and return the writers that it knows."""
    wait_until(lambda: note(server.url, "t/a", 3).is_success)
    answer = httpx.get(f"{server.url}{STREAM}/writers", timeout=PATIENCE_S)
    return {one["writer"] for one in answer.raise_for_status().json()["writers"]}


def test_a_frozen_database_keeps_no_caller_waiting_and_loses_no_report(
    own_cluster: Cluster, two: Controllers
) -> None:
    holder = two.servers[0]
    callers = Callers(holder)
    with own_cluster.frozen(), ThreadPoolExecutor(len(READS)) as threads:
        for number in range(3):
            callers.report(f"{number}-a", f"{number}-b")
            time.sleep(0.05)  # who comes later waits behind the transaction of those before
        statuses = callers.statuses()
        urls = [holder.url + path for path in READS]
        reads = list(threads.map(partial(httpx.get, timeout=PATIENCE_S), urls))
    assert set(statuses.values()) <= {502, 503}
    for read in reads:
        check_problem(read, 503, "unavailable")
        assert read.headers["retry-after"] == "1"
    known = _known(two.holder)
    assert "w" in known
    assert not known & {writer for writer, status in statuses.items() if status == 503}


def _hangs(server: ServerProcess) -> bool:
    try:
        httpx.get(f"{server.url}{STREAM}/watermark", timeout=0.2)
    except httpx.ReadTimeout:
        return True
    return False


def _is_deaf(server: ServerProcess) -> bool:
    try:
        httpx.get(f"{server.url}/healthz", timeout=PATIENCE_S)
    except httpx.TransportError:
        return True
    return False


@pytest.mark.parametrize("two", [3_000], indirect=True)
def test_a_signal_answers_who_waits_for_a_frozen_database_ends_and_says_what_is_undone(
    own_cluster: Cluster, two: Controllers
) -> None:
    holder, other = two.servers
    callers = Callers(holder)
    with own_cluster.frozen():
        callers.report("first")
        wait_until(partial(_hangs, holder))
        callers.report("second", "third")
        queue = 'tidegauge_queue_length{queue="changes"}'
        wait_until(lambda: re.search(rf"{queue} [2-9]", holder.metrics()) is not None)
        holder.process.send_signal(signal.SIGTERM)
        assert holder.process.wait(timeout=PATIENCE_S) == 0
        statuses = callers.statuses()
    # The first is refused, too, if it came while a stamp was written.
    assert statuses in ({"first": at, "second": 503, "third": 503} for at in (502, 503))
    log = holder.log.read_text()
    assert re.findall("ended without the database.* last changes, [0-9]+ were not stored", log)
    assert "Traceback" not in log
    assert _known(other) <= {"w", "first"}  # of the first nobody knows


def test_a_second_signal_ends_it_at_once_while_the_database_is_frozen(
    own_cluster: Cluster, two: Controllers
) -> None:
    server = two.servers[0]
    with own_cluster.frozen():
        server.process.send_signal(signal.SIGINT)
        wait_until(lambda: _is_deaf(server))
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=PATIENCE_S) == -signal.SIGTERM
    assert "ended without the database" not in server.log.read_text()


def test_what_a_server_was_sent_before_it_was_given_up_is_not_carried_out_behind_a_read(
    own_cluster: Cluster,
) -> None:
    def insert(connection: Connection) -> None:
        connection.execute(text("INSERT INTO listening VALUES (1, 0)"))

    def count(connection: Connection) -> object:
        return connection.scalar(text("SELECT count(*) FROM listening"))

    async def scene() -> None:
        with closing(open_database(own_cluster.database())) as database:
            database.timeout_s = 0.5
            process = text("SELECT pg_backend_pid()")
            backend: int = await database.change(lambda one: one.scalar(process))
            os.kill(backend, signal.SIGSTOP)
            try:
                with pytest.raises(OutcomeUnknownError):
                    await database.write(insert, rows=1)
                with pytest.raises(UnavailableError):
                    await database.read(count)
            finally:
                os.kill(backend, signal.SIGCONT)
            assert await database.read(count, patient=True) == 0
            assert await database.change(count) == 0

    asyncio.run(scene())


@pytest.mark.only_on("sqlite", "readers of PostgreSQL wait for no lock of a file")
def test_a_file_that_another_process_locks_makes_it_not_ready(server: ServerProcess) -> None:
    def ready() -> httpx.Response:
        return httpx.get(f"{server.url}/readyz", timeout=PATIENCE_S)

    memory = server.database.with_name(server.database.name + "-shm")
    with memory.open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX, READ_LOCKS, READ_LOCKS_AT)
        reasons = check_problem(ready(), 503, "unhealthy")["reasons"]
        assert reasons == ["the database has not answered for 2 s"]
        assert httpx.get(f"{server.url}/healthz").is_success
    wait_until(lambda: ready().is_success)
