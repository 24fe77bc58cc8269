"""A client that offers another protocol is answered in HTTP/1.1, with its body read."""

import re
import socket
from collections.abc import Iterator

import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import Api

PATH = b"/v1/streams/tests/one/writers/w/note-time"
BODY = b'{"time": 1700000000000, "position": {}}'
LENGTH = b"content-length: %d" % len(BODY)
IN_CHUNKS = b"%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
SMUGGLED = b"DELETE /v1/streams/tests/one HTTP/1.1\r\nhost: localhost\r\n\r\n"
OFFERS = {
    "of Java": [
        b"connection: Upgrade, HTTP2-Settings",
        b"upgrade: h2c",
        b"http2-settings: AAEAAEAA",
    ],
    "of a browser": [
        b"connection: upgrade",
        b"upgrade: websocket",
        b"sec-websocket-version: 13",
        b"sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ],
}
CLOSING = {
    "in one header": [b"connection: Upgrade, close", b"upgrade: h2c"],
    "close first": [b"connection: close, upgrade", b"upgrade: h2c"],
    "in two headers": [b"connection: upgrade", b"connection: close", b"upgrade: h2c"],
}
BODIES = {
    "with a length": ([LENGTH], BODY, [200]),
    "in chunks": ([b"transfer-encoding: chunked"], IN_CHUNKS, [200]),
    "expected": ([LENGTH, b"expect: 100-continue"], BODY, [100, 200]),
}


def _head(line: bytes, *headers: bytes, version: bytes = b"1.1") -> bytes:
    return b"\r\n".join(
        [b"%s HTTP/%s" % (line, version), b"host: localhost", *headers, b"", b""]
    )


def _post(path: bytes, *headers: bytes) -> bytes:
    return _head(b"POST " + path, b"content-type: application/json", *headers)


GET = _head(b"GET /healthz")
LAST = _head(b"GET /v1/streams/tests/one", b"connection: close")


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server() as server, Api(server.url) as api:
        api.create()
        yield server


def _statuses(server: ServerProcess, *parts: bytes) -> list[int]:
    """Send some bytes, part by part, and return what was answered until the connection ended."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_S) as sock:
        for part in parts:
            sock.sendall(part)
        with sock.makefile("rb") as answers:
            return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+)", answers.read())]


@pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS)
def test_a_connection_goes_on_behind_an_offer(
    server: ServerProcess, offer: list[bytes]
) -> None:
    report = _post(PATH, *offer, LENGTH) + BODY
    smuggling = _post(b"/v1/note-times", *offer, b"content-length: %d" % len(SMUGGLED))
    assert _statuses(server, report + report + LAST) == [200] * 3
    assert _statuses(server, smuggling, SMUGGLED, LAST) == [422, 200]
    assert _statuses(server, _head(b"GET /healthz", *offer) * 2 + LAST) == [200] * 3


@pytest.mark.parametrize("closing", CLOSING.values(), ids=CLOSING)
def test_an_offer_that_ends_its_connection_is_answered_before(
    server: ServerProcess, closing: list[bytes]
) -> None:
    head = _head(b"GET /healthz", *closing)
    assert _statuses(server, head) == [200]
    assert _statuses(server, *(bytes([one]) for one in head)) == [200]
    assert _statuses(server, GET + GET + head + GET) == [200] * 3


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("closing", CLOSING.values(), ids=CLOSING)
def test_a_body_is_read_though_its_offer_ends_the_connection(
    server: ServerProcess, closing: list[bytes], body: tuple[list[bytes], bytes, list[int]]
) -> None:
    headers, content, statuses = body
    head = _post(PATH, *closing, *headers)
    assert _statuses(server, head + content) == statuses
    assert _statuses(server, head, content) == statuses


@pytest.mark.parametrize("connection", [b"upgrade", b"upgrade, close", b"upgrade, keep-alive"])
def test_an_offer_in_http_1_0_is_answered(server: ServerProcess, connection: bytes) -> None:
    offer = (b"connection: " + connection, b"upgrade: h2c")
    assert _statuses(server, _head(b"GET /healthz", *offer, version=b"1.0")) == [200]


def test_there_are_no_tunnels(server: ServerProcess) -> None:
    assert _statuses(server, _head(b"CONNECT /healthz")) == [400]
