"""Calls that do not come to their end: who asks hangs up, the service ends, or a body is too large."""

import json
import re
import select
import signal
import socket
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path

import httpx
import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import LAUNCHER, Api, ServerProcess
from tests.service.connections import wait_until_read
from tests.service.controllers import controllers, create, is_ready, note
from tests.service.problems import check_problem

STREAMS = ["tests/a", "tests/b"]
WHOLE = {
    "events": b'{"key": "k", "event_time": 1, "value": "v"}\n',
    "writers/w/note-time": b'{"time": 1700000000000}',
}
TYPES = {"events": "application/x-ndjson", "writers/w/note-time": "application/json"}
LONG_POLLS = ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"]


@pytest.fixture(scope="module")
def seats(new_server: NewServer) -> Iterator[ServerProcess]:
    """A service with two seats for long polls."""
    with new_server(max_long_polls=2) as running:
        create(running.url, *STREAMS, log="embedded")
        yield running


@pytest.mark.parametrize("call", LONG_POLLS)
def test_a_seat_is_free_once_who_had_it_hangs_up(seats: ServerProcess, call: str) -> None:
    request = (
        f"GET /v1/streams/tests/a/{call}&wait_ms=30000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    with _asking(seats, request) as staying:
        seats.wait_for_waiting(1)
        for _ in range(2):
            with _asking(seats, request):
                seats.wait_for_waiting(2)
            seats.wait_for_waiting(1)
        assert select.select([staying], [], [], 0)[0] == []  # it asked first, and has no answer
    seats.wait_for_waiting(0)
    assert _defects(seats) == 0


@contextmanager
def _asking(server: ServerProcess, request: str) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request.encode())
        yield connection


def _defects(server: ServerProcess) -> int:
    return sum(map(int, re.findall(r"defects_total (\d+)", server.metrics())))


def _hang_up_in(server: ServerProcess, stream: str, call: str) -> None:
    head = [
        f"POST /v1/streams/{stream}/{call} HTTP/1.1",
        "host: localhost",
        f"content-type: {TYPES[call]}",
        "content-length: 1000",
    ]
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall("\r\n".join([*head, "", ""]).encode() + WHOLE[call])
        wait_until_read(connection)


def _metric(server: ServerProcess, pattern: str) -> int:
    return sum(map(int, re.findall(pattern, httpx.get(f"{server.url}/metrics").text)))


@pytest.mark.parametrize("call", WHOLE)
def test_what_is_cut_off_is_not_taken(seats: ServerProcess, call: str) -> None:
    refused = r'http_request_duration_seconds_count{.*status="4xx"} (\d+)'
    before = _metric(seats, refused)
    for stream in STREAMS:
        _hang_up_in(seats, stream, call)
    wait_until(lambda: _metric(seats, refused) == before + 2)
    assert _defects(seats) == 0
    for stream in STREAMS:
        path = f"{seats.url}/v1/streams/{stream}"
        assert httpx.get(path).json()["tail"] == {"0": 0}
        assert httpx.get(f"{path}/writers").json()["writers"] == []


HASTY = "from controller.serving import server; server._GRACE_S = 1\n" + LAUNCHER
PATIENT = "from controller.serving import server; server._GRACE_S = 600\n" + LAUNCHER
pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")
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
    head = f"{call} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
    connection = socket.create_connection(("127.0.0.1", server.port), 20)
    connection.sendall(f"{head}\r\ncontent-length: 100\r\n\r\n{{".encode())
    wait_until_read(connection)
    return connection


def _refusal(connection: socket.socket) -> tuple[int, str]:
    with closing(HTTPResponse(connection)) as answer:
        answer.begin()
        return answer.status, json.loads(answer.read())["code"]


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
        looking = pool.submit(_ask_once_it_is_busy, server)
        wait_until(lambda: 'queue_length{queue="looks"} 1.0' in server.metrics())
        server.process.send_signal(signal.SIGTERM)
        check_problem(noting.result(PATIENCE_S), 502, "outcome_unknown")
        check_problem(looking.result(PATIENCE_S), 503, "unavailable")
        locking.execute("ROLLBACK")
        assert server.process.wait(timeout=PATIENCE_S) == 0
        assert "Traceback" not in server.log.read_text()


def _ask_once_it_is_busy(server: ServerProcess) -> httpx.Response:
    """Look until a look has to wait."""
    while True:
        answer = httpx.get(f"{server.url}{STREAM}/watermark", timeout=PATIENCE_S)
        if not answer.is_success:
            return answer


LIMIT = 100_000
REPORT = b'{"time": 1700000000000, "position": {}}'
BODY_CALLS = [
    ("POST", NOTE),
    ("POST", "/v1/note-times"),
    ("POST", f"{STREAM}/writers/w/register"),
    ("POST", f"{STREAM}/events"),
    ("POST", f"{STREAM}/segments/0/events"),
    ("PUT", "/v1/streams/tests/two"),
    ("GET", STREAM),
    ("POST", "/nothing/there"),
]


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server(max_body_bytes=LIMIT) as server, Api(server.url) as api:
        api.create()
        yield server


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[HTTPConnection]:
    with closing(HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.connect()
        yield connection


def _head(method: str, path: str, **headers: object) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    head = [f"{method} {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    return "\r\n".join([*head, *lines, "", ""]).encode()


def _assert_refused(sock: socket.socket) -> None:
    answer = HTTPResponse(sock)
    answer.begin()
    assert answer.status == 413
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(answer.read())
    assert (document["code"], document["limit_bytes"]) == ("body_too_large", LIMIT)


@pytest.mark.parametrize("expects", [False, True])
@pytest.mark.parametrize(("method", "path"), BODY_CALLS)
def test_a_body_that_is_too_large_is_refused_before_any_of_it_came(
    connection: HTTPConnection, method: str, path: str, *, expects: bool
) -> None:
    expect = {"expect": "100-continue"} if expects else {}
    connection.sock.sendall(_head(method, path, content_length=10**12, **expect))
    _assert_refused(connection.sock)


def test_a_body_that_is_too_large_is_refused_after_others_on_its_connection(
    connection: HTTPConnection,
) -> None:
    report = _head("POST", NOTE, content_length=len(REPORT)) + REPORT
    assert [_status(connection.sock, report) for _ in range(3)] == [200] * 3
    connection.sock.sendall(_head("POST", NOTE, content_length=10**12) + REPORT)
    _assert_refused(connection.sock)


def _status(sock: socket.socket, request: bytes) -> int:
    sock.sendall(request)
    answer = HTTPResponse(sock)
    answer.begin()
    answer.read()
    return answer.status


def test_who_sends_all_of_a_body_that_is_too_large_can_read_the_answer(
    connection: HTTPConnection,
) -> None:
    connection.sock.sendall(_head("POST", NOTE, content_length=20_000_000))
    for _ in range(20):
        connection.sock.sendall(b" " * 1_000_000)
    _assert_refused(connection.sock)
    assert _status(connection.sock, _head("GET", STREAM)) == 200


def test_a_body_in_chunks_is_refused_where_it_passes_the_limit(
    connection: HTTPConnection,
) -> None:
    connection.sock.sendall(_head("POST", "/v1/note-times", transfer_encoding="chunked"))
    chunk = b"%x\r\n%s\r\n" % (LIMIT, b" " * LIMIT)
    connection.sock.sendall(chunk * 2)
    _assert_refused(connection.sock)
