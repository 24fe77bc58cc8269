"""A call that does not come to its end is cut off when the service ends: told so, and no defect."""

import json
import signal
import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPResponse
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewServer
from tests.integration.connections import wait_until_read
from tests.integration.controllers import controllers, create, note
from tests.integration.problems import check_problem
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, Api, ServerProcess

HASTY = "from controller import server; server._GRACE_S = 1\n" + LAUNCHER
PATIENT = "from controller import server; server._GRACE_S = 600\n" + LAUNCHER
STREAM = "/v1/streams/tests/one"
NOTE = f"{STREAM}/writers/w/note-time"


@pytest.fixture
def hasty(new_server: NewServer) -> ServerProcess:
    """One that waits for a second only, when it ends."""
    return new_server(launcher=HASTY)


def test_who_sends_no_end_of_a_body_is_told_that_the_service_has_ended(
    hasty: ServerProcess,
) -> None:
    calls = [f"POST {NOTE}", "POST /v1/note-times", "PUT /v1/streams/tests/two"]
    with hasty as server, Api(server.url) as api, ExitStack() as stack:
        api.create()
        connections = [stack.enter_context(_begin(server, call)) for call in calls]
        assert server.stop() == 0
        assert [_refusal(one) for one in connections] == [(502, "outcome_unknown")] * 3
        assert "Traceback" not in server.log.read_text()


def _begin(server: ServerProcess, call: str) -> socket.socket:
    head = f"{call} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json"
    connection = socket.create_connection(("127.0.0.1", server.port), 20)
    connection.sendall(f"{head}\r\ncontent-length: 100\r\n\r\n{{".encode())
    wait_until_read(connection)
    return connection


def _refusal(connection: socket.socket) -> tuple[int, str]:
    with closing(HTTPResponse(connection)) as answer:
        answer.begin()
        return answer.status, json.loads(answer.read())["code"]


def test_who_sends_no_end_of_a_body_keeps_no_stream_from_other_controllers(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 2, launcher=PATIENT) as two:
        create(two.servers[0].url, "tests/one")
        ending = two.holder_of("tests/one")
        (staying,) = (one for one in two.servers if one is not ending)
        with _begin(ending, f"POST {NOTE}") as connection:
            ending.process.send_signal(signal.SIGTERM)
            wait_until(lambda: two.held() == [1, 0])
            assert note(staying.url, "tests/one", 1).is_success
            assert ending.process.poll() is None
            connection.sendall(b'"time": 1}'.rjust(99))
            assert _refusal(connection) == (503, "unavailable")
        assert ending.process.wait(timeout=PATIENCE_S) == 0


def test_what_operators_may_have_done_is_logged_though_it_is_cut_off(
    hasty: ServerProcess,
) -> None:
    call = "PUT /v1/streams/tests/two"
    with hasty as server, _begin(server, call), _begin(server, f"POST {NOTE}"):
        assert server.stop() == 0
        said = "caller=anybody method=PUT path=/v1/streams/tests/two status=502"
        assert said in server.log.read_text()
        assert server.log.read_text().count("operator call") == 1


@pytest.mark.only_on("sqlite", "only a file is locked as a whole")
def test_who_waits_for_a_locked_database_is_told_what_is_known(hasty: ServerProcess) -> None:
    with (
        hasty as server,
        Api(server.url) as api,
        closing(sqlite3.connect(server.database, isolation_level=None)) as locking,
        ThreadPoolExecutor() as pool,
    ):
        api.create()
        locking.execute("BEGIN IMMEDIATE")
        report = {"time": 1_700_000_000_000, "position": {}}
        noting = pool.submit(httpx.post, server.url + NOTE, json=report, timeout=PATIENCE_S)
        looking = [pool.submit(_ask_once_it_is_busy, server, one) for one in ("GET", "HEAD")]
        wait_until(lambda: 'queue_length{queue="looks"} 2.0' in server.metrics())
        server.process.send_signal(signal.SIGTERM)
        check_problem(noting.result(PATIENCE_S), 502, "outcome_unknown")
        got, head = (one.result(PATIENCE_S) for one in looking)
        check_problem(got, 503, "unavailable")
        assert head.status_code == 503
        locking.execute("ROLLBACK")
        assert server.process.wait(timeout=PATIENCE_S) == 0
        assert "Traceback" not in server.log.read_text()


def _ask_once_it_is_busy(server: ServerProcess, method: str) -> httpx.Response:
    """Look until a look has to wait."""
    while True:
        url = f"{server.url}{STREAM}/watermark"
        answer = httpx.request(method, url, timeout=PATIENCE_S)
        if not answer.is_success:
            return answer
