"""Calls that do not come to their end: who asks hangs up, or the service ends."""

import re
import select
import signal
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.service.api import Api
from tests.service.connections import JSON, Connection, request
from tests.service.controllers import controllers, create, is_ready, note
from tests.service.problems import NOTE, ONE, check_problem

REPORT = b'{"time": 1700000000000, "position": {}}'
EVENT = b'{"key": "k", "event_time": 1, "value": "v"}\n'
LONG_POLLS = ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"]
_WITH_GRACE = "from controller.serving import server; server._GRACE_S = {}; " + LAUNCHER
HASTY, PATIENT = _WITH_GRACE.format(1), _WITH_GRACE.format(600)


def _begin(server: ServerProcess, call: str) -> Connection:
    """Send a call but for most of its body, and wait until it is read."""
    connection = Connection(server, request(call, JSON, "content-length: 100", body=b"{"))
    connection.wait_until_read()
    return connection


@pytest.fixture(scope="module")
def seats(new_server: NewServer) -> Iterator[ServerProcess]:
    """A service with two seats for long polls."""
    with new_server(max_long_polls=2) as running:
        create(running.url, "tests/one", log="embedded")
        yield running


def _count(server: ServerProcess, pattern: str) -> int:
    return sum(map(int, re.findall(pattern, server.metrics())))


@pytest.mark.parametrize("call", LONG_POLLS)
def test_a_seat_is_free_once_who_had_it_hangs_up(seats: ServerProcess, call: str) -> None:
    ask = partial(Connection, seats, request(f"GET {ONE}/{call}&wait_ms=30000"))
    with ask() as staying:
        seats.wait_for_waiting(1)
        for _ in range(2):
            with ask():
                seats.wait_for_waiting(2)
            seats.wait_for_waiting(1)
        assert select.select([staying], [], [], 0)[0] == []  # it asked first, and has no answer
    seats.wait_for_waiting(0)
    assert _count(seats, r"defects_total (\d+)") == 0


@pytest.mark.parametrize(
    ("path", "kind", "whole"),
    [(f"{ONE}/events", "content-type: application/x-ndjson", EVENT), (NOTE, JSON, REPORT)],
    ids=["events", "report"],
)
def test_what_is_cut_off_is_not_taken(
    seats: ServerProcess, path: str, kind: str, whole: bytes
) -> None:
    refused = r'http_request_duration_seconds_count{.*status="4xx"} (\d+)'
    before = _count(seats, refused)
    with Connection(
        seats, request(f"POST {path}", kind, "content-length: 1000", body=whole)
    ) as connection:
        connection.wait_until_read()
    wait_until(lambda: _count(seats, refused) == before + 1)
    assert _count(seats, r"defects_total (\d+)") == 0
    with Api(seats.url) as api:
        assert api.client.get(ONE).json()["tail"] == {"0": 0}
        assert api.get("writers")["writers"] == []


@pytest.fixture
def hasty(new_server: NewServer) -> Iterator[ServerProcess]:
    """One that waits for a second only, when it ends, with a stream."""
    with new_server(launcher=HASTY) as running:
        create(running.url, "tests/one")
        yield running


def test_who_sends_no_end_of_a_body_is_told_that_the_service_has_ended(
    hasty: ServerProcess,
) -> None:
    calls = [f"POST {NOTE}", "POST /v1/note-times", "PUT /v1/streams/tests/two"]
    with ExitStack() as stack:
        connections = [stack.enter_context(_begin(hasty, call)) for call in calls]
        assert hasty.stop() == 0
        assert [one.answer() for one in connections] == [(502, "outcome_unknown")] * 3
    said = hasty.log.read_text()
    assert "Traceback" not in said
    # What operators may have done is logged, though it was cut off.
    assert "caller=anybody method=PUT path=/v1/streams/tests/two status=502" in said
    assert said.count("operator call") == 2  # and the creation


def test_who_sends_no_end_of_a_body_keeps_the_database_from_no_standby(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 2, launcher=PATIENT) as two:
        create(two.servers[0].url, "tests/one")
        ending, staying = two.servers
        with _begin(ending, f"POST {NOTE}") as connection:
            ending.process.send_signal(signal.SIGTERM)
            wait_until(lambda: is_ready(staying))
            assert note(staying.url, "tests/one", 1).is_success
            assert ending.process.poll() is None
            connection.send(b'"time": 1}'.rjust(99))
            assert connection.answer() == (503, "unavailable")
        assert ending.process.wait(timeout=PATIENCE_S) == 0


@pytest.mark.only_on("sqlite", "only a file is locked as a whole")
def test_who_waits_for_a_locked_database_is_told_what_is_known(hasty: ServerProcess) -> None:
    ask = partial(httpx.get, f"{hasty.url}{ONE}/watermark", timeout=PATIENCE_S)

    def ask_until_refused() -> httpx.Response:
        while (answer := ask()).is_success:
            pass
        return answer

    locking = sqlite3.connect(hasty.database, isolation_level=None)
    with closing(locking), ThreadPoolExecutor() as pool:
        locking.execute("BEGIN IMMEDIATE")
        noting = pool.submit(note, hasty.url, "tests/one", 1)
        looking = pool.submit(ask_until_refused)
        wait_until(lambda: 'queue_length{queue="reads"} 1.0' in hasty.metrics())
        hasty.process.send_signal(signal.SIGTERM)
        check_problem(noting.result(PATIENCE_S), 502, "outcome_unknown")
        check_problem(looking.result(PATIENCE_S), 503, "unavailable")
        locking.execute("ROLLBACK")
        assert hasty.process.wait(timeout=PATIENCE_S) == 0
        assert "Traceback" not in hasty.log.read_text()
