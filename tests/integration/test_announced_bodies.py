"""A body that is announced beyond the limit is refused at its head, and its connection ends."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection, HTTPResponse

import pytest

from tests.conftest import NewServer
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

LIMIT = 100_000
STREAM = "/v1/streams/tests/one"
NOTE = f"{STREAM}/writers/w/note-time"
REPORT = b'{"time": 1700000000000, "position": {}}'
CALLS = [
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
    assert (answer.status, answer.headers["connection"]) == (413, "close")
    assert answer.headers["content-type"] == "application/problem+json"
    document = json.loads(answer.read())
    assert (document["code"], document["limit_bytes"]) == ("body_too_large", LIMIT)
    assert sock.recv(1) == b""


@pytest.mark.parametrize("expects", [False, True])
@pytest.mark.parametrize(("method", "path"), CALLS)
def test_it_is_refused_before_any_of_it_came(
    connection: HTTPConnection, method: str, path: str, *, expects: bool
) -> None:
    expect = {"expect": "100-continue"} if expects else {}
    connection.sock.sendall(_head(method, path, content_length=10**12, **expect))
    _assert_refused(connection.sock)


def test_it_is_refused_on_a_connection_whose_heads_are_known(
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


def test_who_sends_all_of_it_first_can_read_the_answer(connection: HTTPConnection) -> None:
    connection.sock.sendall(_head("POST", NOTE, content_length=20_000_000))
    for _ in range(20):
        connection.sock.sendall(b" " * 1_000_000)
    _assert_refused(connection.sock)


def test_one_in_chunks_is_refused_where_it_passes_the_limit(
    connection: HTTPConnection,
) -> None:
    connection.sock.sendall(_head("POST", "/v1/note-times", transfer_encoding="chunked"))
    chunk = b"%x\r\n%s\r\n" % (LIMIT, b" " * LIMIT)
    connection.sock.sendall(chunk * 2)
    _assert_refused(connection.sock)


def test_who_never_stops_sending_is_cut_off(connection: HTTPConnection) -> None:
    connection.sock.sendall(_head("POST", NOTE, content_length=10**12))
    with pytest.raises(ConnectionError):
        _send_for_ever(connection.sock)


def _send_for_ever(sock: socket.socket) -> None:
    while True:
        sock.sendall(b" " * 100_000)
