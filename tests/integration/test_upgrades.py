"""A client that offers another protocol is answered in HTTP/1.1, with its body read."""

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.conftest import NewServer
from tests.server import Api, ServerProcess

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
every_offer = pytest.mark.parametrize("offer", OFFERS.values(), ids=OFFERS.keys())


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    with new_server() as server, Api(server.url) as api:
        api.create()
        yield server


@pytest.fixture
def connection(server: ServerProcess) -> Iterator[HTTPConnection]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
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
    smuggled = b"DELETE /v1/streams/tests/one HTTP/1.1\r\nhost: x\r\n\r\n"
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


def test_there_are_no_tunnels(connection: HTTPConnection) -> None:
    connection.request("CONNECT", "/healthz")
    assert answered(connection) == 400
