"""What comes on one connection is answered in order, in whatever pieces; its heads have a deadline."""

import json
import re
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Self

import httpx
import pytest

from tests.conftest import NewServer
from tests.integration.connections import wait_until_read
from tests.integration.sessions import write_lock
from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "connections come before any database")

TIME = 1_700_000_000_000
HEAD_TIMEOUT_MS = 1_000
PATH = "/v1/streams/tests/one/writers/w/note-time"


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    """One for all tests but the last, which stops it."""
    with new_server(head_timeout_ms=HEAD_TIMEOUT_MS) as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server.url) as api:
        api.client.delete(api.path)
        api.create()
        yield api


class Connection:
    """One connection that sends exactly what it is told."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._file = self._socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def status(self) -> int:
        return self.answer()[0]

    def answer(self) -> tuple[int, dict[str, object]]:
        status = int(self._file.readline().split()[1])
        length = 0
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b": ")
            length = int(value) if name == b"content-length" else length
        return status, json.loads(self._file.read(length))

    def send_for_ever(self, data: bytes) -> None:
        while True:
            self.send(data)
            threading.Event().wait(0.01)  # slow, but never silent

    def asks_health(self, rest: bytes = b"GET /healthz HTTP/1.1\r\n\r\n") -> int:
        self.send(rest)
        return self.status()

    def is_closed(self) -> bool:
        return self._file.read(1) == b""

    def wait_until_read(self) -> None:
        """Wait until the server has taken everything out of its socket."""
        wait_until_read(self._socket)


@pytest.fixture
def connection(server: ServerProcess, api: Api) -> Iterator[Connection]:
    with Connection(server.port) as connection:
        connection.send(report(0))
        assert connection.status() == 200
        yield connection


def report(at: int, *, path: str = PATH, headers: str = "") -> bytes:
    body = json.dumps({"time": TIME + at, "position": {"0": at}})
    head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


def test_a_refused_report_is_told_so_and_the_connection_goes_on(
    connection: Connection,
) -> None:
    connection.send(report(5))
    assert connection.status() == 200
    connection.send(report(4))
    status, problem = connection.answer()
    assert (status, problem["code"]) == (409, "invalid_time")
    connection.send(report(6))
    assert connection.status() == 200


def test_a_request_in_pieces_is_answered_once_it_is_whole(connection: Connection) -> None:
    data = report(1)
    for cut in (3, 40, data.index(b"\r\n\r\n") + 4, len(data) - 1):
        for piece in (data[:cut], data[cut:]):
            connection.send(piece)
            threading.Event().wait(0.01)  # lets the pieces arrive one by one
        assert connection.status() == 200


def test_requests_sent_at_once_are_answered_in_order(api: Api, connection: Connection) -> None:
    connection.send(b"".join(report(at) for at in range(1, 6)))
    assert [connection.status() for _ in range(5)] == [200] * 5
    connection.send(report(6))
    connection.send(report(7) + report(6) + report(8))
    assert [connection.status() for _ in range(4)] == [200, 200, 409, 200]
    assert api.get("watermark")["watermark"] == TIME + 8


def test_what_comes_before_the_answer_waits_for_it(
    server: ServerProcess, connection: Connection
) -> None:
    with write_lock(server.database_url):
        connection.send(report(1))
        connection.wait_until_read()
        connection.send(report(2) + report(3)[:50])
        connection.wait_until_read()
    assert [connection.status(), connection.status()] == [200, 200]
    connection.send(report(3)[50:])
    assert connection.status() == 200


def test_a_wish_to_close_is_heard(server: ServerProcess, api: Api) -> None:
    with Connection(server.port) as connection:
        connection.send(report(1, headers="connection: close\r\n"))
        assert connection.status() == 200
        assert connection.is_closed()


def test_a_body_in_chunks_is_read(connection: Connection) -> None:
    whole = report(1, headers="transfer-encoding: chunked\r\n")
    head, _, body = whole.partition(b"\r\n\r\n")
    head = b"\r\n".join(line for line in head.split(b"\r\n") if b"length" not in line)
    connection.send(b"%s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (head, len(body), body))
    assert connection.status() == 200


def test_a_connection_on_which_nothing_is_asked_is_closed(server: ServerProcess) -> None:
    with ExitStack() as stack:
        asked = [b"", b"\r\n", b"\r\n\r\n"]
        connections = [stack.enter_context(Connection(server.port)) for _ in asked]
        for connection, sent in zip(connections, asked, strict=True):
            connection.send(sent)
        assert [one.is_closed() for one in connections] == [True] * 3


def test_heads_that_are_not_whole_in_time_are_refused(server: ServerProcess, api: Api) -> None:
    begun = [b"G", b"GET /healthz HTTP/1.1\r\n", b"GET / HTTP/1.1\r\nhost: localhost\r\na"]
    with ExitStack() as stack:
        cases = [
            (stack.enter_context(Connection(server.port)), before, one)
            for before in (0, 1)
            for one in begun
        ]
        for connection, before, one in cases:
            connection.send(report(1) * before + one)
        for connection, before, _ in cases:
            assert [connection.status() for _ in range(before)] == [200] * before
            status, problem = connection.answer()
            assert (status, problem["code"]) == (408, "head_timeout")
            assert "head_timeout_ms" in str(problem["detail"])
            assert connection.is_closed()


def test_a_head_that_comes_byte_by_byte_is_refused_in_time(server: ServerProcess) -> None:
    with Connection(server.port) as connection:
        connection.send(b"GET /healthz HTTP/1.1\r\na: ")
        with pytest.raises(ConnectionError):
            connection.send_for_ever(b"b")


def test_a_request_that_takes_longer_than_a_head_may_is_answered(
    server: ServerProcess, api: Api
) -> None:
    query = f"after=99&wait_ms={3 * HEAD_TIMEOUT_MS}"
    assert api.client.get(f"{api.path}/marks?{query}").json()["marks"] == []


def test_all_heads_that_are_not_whole_have_a_budget_and_the_oldest_give_way(
    new_server: NewServer,
) -> None:
    head = b"GET /healthz HTTP/1.1\r\na: " + b"b" * 40_000
    with (
        new_server(max_unfinished_head_bytes=100_000, head_timeout_ms=600_000) as server,
        ExitStack() as stack,
    ):
        slow = [stack.enter_context(Connection(server.port)) for _ in range(5)]
        for one in slow:
            one.send(head)
            one.wait_until_read()
        for one in slow[:3]:
            status, problem = one.answer()
            assert (status, problem["code"]) == (503, "unavailable")
            assert "max_unfinished_head_bytes" in str(problem["detail"])
        for one in slow[3:]:
            assert one.asks_health(b"\r\n\r\n") == 200
        slow[4].send(head)  # what is whole is counted no longer
        slow[4].wait_until_read()
        assert slow[3].asks_health() == slow[4].asks_health(b"\r\n\r\n") == 200


def test_many_short_headers_count_as_what_they_take(new_server: NewServer) -> None:
    with (
        new_server(max_unfinished_head_bytes=1_000_000, head_timeout_ms=600_000) as server,
        Connection(server.port) as connection,
    ):
        connection.send(b"GET /healthz HTTP/1.1\r\n" + b"a:b\r\n" * 10_000)
        assert connection.answer()[1]["code"] == "unavailable"


def test_a_connection_that_says_nothing_more_is_closed(
    server: ServerProcess, connection: Connection
) -> None:
    connection.send(report(1))
    assert connection.status() == 200
    assert connection.is_closed()
    assert httpx.get(f"{server.url}/healthz").is_success


def test_a_report_in_its_transaction_is_answered_before_the_service_stops(
    server: ServerProcess, connection: Connection
) -> None:
    with write_lock(server.database_url):
        connection.send(report(1))
        threading.Event().wait(0.1)  # the disk is slow
    assert connection.status() == 200
    with write_lock(server.database_url):
        connection.send(report(2))
        connection.wait_until_read()
        server.process.send_signal(signal.SIGTERM)
    assert connection.status() == 200
    assert connection.is_closed()
    assert server.process.wait(timeout=PATIENCE_S) == 0


HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
LINE = b'{"key": "k", "value": "v"}\n'
STREAM = b"/v1/streams/order/one"
CREATE = b'{"log": "embedded", "segments": 1}'
GARBAGE = b"garbage\r\n\r\n"
BAD_CHUNK = (
    b"POST /v1/note-times HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\nzz\r\n"
)
TOO_LONG = b"GET /healthz HTTP/1.1\r\na: " + b"b" * 2**20 + b"\r\n\r\n"


def _request(line: bytes, media_type: bytes, body: bytes, *, announced: int) -> bytes:
    head = [line + b" HTTP/1.1", b"host: localhost", b"content-type: " + media_type]
    return b"\r\n".join([*head, b"content-length: %d" % announced, b"", body])


def _statuses(server: ServerProcess, sent: bytes) -> list[int]:
    """Send all at once, and read until the service closes."""
    with socket.create_connection(("127.0.0.1", server.port), 20) as connection:
        connection.sendall(sent)
        with connection.makefile("rb") as stream:
            answers = stream.read()
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answers)]


@pytest.mark.parametrize(
    ("malformed", "status"), [(GARBAGE, 400), (BAD_CHUNK, 400), (TOO_LONG, 431)]
)
@pytest.mark.parametrize("whole", [1, 3])
def test_whole_requests_before_a_malformed_one_are_answered_first(
    shared_server: ServerProcess, whole: int, malformed: bytes, status: int
) -> None:
    sent = HEALTH * whole + malformed + HEALTH
    assert _statuses(shared_server, sent) == [200] * whole + [status]


def test_what_is_malformed_is_refused_at_once_if_it_is_the_first(
    shared_server: ServerProcess,
) -> None:
    assert _statuses(shared_server, BAD_CHUNK) == [400]


def test_a_body_that_is_longer_than_it_said_is_taken_as_far_as_that(
    shared_server: ServerProcess,
) -> None:
    create = _request(b"PUT " + STREAM, b"application/json", CREATE, announced=len(CREATE))
    append = _request(
        b"POST " + STREAM + b"/events",
        b"application/x-ndjson",
        LINE * 2,
        announced=len(LINE),
    )
    assert _statuses(shared_server, create + append) == [201, 200, 400]
