"""A client that offers another protocol is answered in HTTP/1.1, with its body read."""

import re
import socket
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

PATH = "/v1/streams/tests/one/writers/w/note-time"
BODY = b'{"time": 1700000000000, "position": {}}'
JSON = {"content-type": "application/json"}
OFFERS = {
    "of Java": {
        "connection": "Upgrade, HTTP2-Settings",
        "upgrade": "h2c",
        "http2-settings": "AAEAAEAA",
    },
    "of a browser": {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    },
}
CLOSING = {
    "in one header": b"connection: Upgrade, close",
    "close first": b"connection: close, upgrade",
    "in two headers": b"connection: upgrade\r\nconnection: close",
}
LENGTH = b"content-length: %d" % len(BODY)
CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
BODIES = {
    "with a length": ([LENGTH], BODY, [200]),
    "in chunks": ([b"transfer-encoding: chunked"], CHUNKS, [200]),
    "expected": ([LENGTH, b"expect: 100-continue"], BODY, [100, 200]),
}
GET = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
every_offer = pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS.keys())
every_closing = pytest.mark.parametrize("closing", CLOSING.values(), ids=CLOSING.keys())
every_body = pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server() as server, Api(server.url) as api:
        api.create()
        yield server


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_S)
    yield connection
    connection.close()


def answered(connection: HTTPConnection) -> int:
    with connection.getresponse() as response:
        response.read()
        return response.status


@every_offer
def test_a_report_with_an_offer_is_taken_each_time(
    connection: HTTPConnection, offer: dict[str, str]
) -> None:
    for _ in range(3):
        connection.request("POST", PATH, body=BODY, headers=JSON | offer)
        assert answered(connection) == 200


@every_offer
def test_a_body_that_comes_after_its_head_is_no_request_of_its_own(
    connection: HTTPConnection, offer: dict[str, str]
) -> None:
    smuggled = b"DELETE /v1/streams/tests/one HTTP/1.1\r\nhost: localhost\r\n\r\n"
    headers = {**offer, "content-length": str(len(smuggled))}
    connection.request("POST", "/v1/note-times", headers=JSON | headers)
    connection.send(smuggled)
    assert answered(connection) == 422
    connection.request("GET", "/v1/streams/tests/one")
    assert answered(connection) == 200


@every_offer
def test_a_call_without_a_body_is_answered(
    connection: HTTPConnection, offer: dict[str, str]
) -> None:
    for _ in range(2):
        connection.request("GET", "/healthz", headers=offer)
        assert answered(connection) == 200


def offering(line: bytes, *headers: bytes) -> bytes:
    return b"\r\n".join([line, b"host: localhost", *headers, b"upgrade: h2c", b"", b""])


def answered_until_closed(server: ServerProcess, *parts: bytes) -> list[int]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as sock:
        for part in parts:
            sock.sendall(part)
        with sock.makefile("rb") as answers:
            return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+)", answers.read())]


@every_closing
def test_an_offer_that_ends_its_connection_is_answered_before(
    server: ServerProcess, closing: bytes
) -> None:
    head = offering(b"GET /healthz HTTP/1.1", closing)
    assert answered_until_closed(server, head) == [200]
    assert answered_until_closed(server, *(bytes([one]) for one in head)) == [200]


@every_body
@every_closing
def test_a_body_is_read_though_its_offer_ends_the_connection(
    server: ServerProcess, closing: bytes, body: tuple[list[bytes], bytes, list[int]]
) -> None:
    headers, content, statuses = body
    line = b"POST %s HTTP/1.1" % PATH.encode()
    head = offering(line, closing, b"content-type: application/json", *headers)
    assert answered_until_closed(server, head + content) == statuses
    assert answered_until_closed(server, head, content) == statuses


@every_closing
def test_only_what_comes_before_the_end_of_a_connection_is_answered(
    server: ServerProcess, closing: bytes
) -> None:
    last = offering(b"GET /healthz HTTP/1.1", closing)
    assert answered_until_closed(server, GET + GET + last + GET) == [200] * 3


@pytest.mark.parametrize("connection", [b"upgrade", b"upgrade, close", b"upgrade, keep-alive"])
def test_an_offer_in_http_1_0_is_answered(server: ServerProcess, connection: bytes) -> None:
    head = offering(b"GET /healthz HTTP/1.0", b"connection: " + connection)
    assert answered_until_closed(server, head) == [200]


def test_there_are_no_tunnels(connection: HTTPConnection) -> None:
    connection.request("CONNECT", "/healthz")
    assert answered(connection) == 400
