"""What comes on one connection is answered in order, in whatever pieces."""

import json
import signal
import threading
from collections.abc import Iterator

import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.connections import JSON, Connection, request
from tests.service.sessions import write_lock

pytestmark = pytest.mark.only_on("sqlite", "connections come before any database")

TIME = 1_700_000_000_000
LIMIT = 100_000
ONE = "/v1/streams/tests/one"
PATH = f"{ONE}/writers/w/note-time"


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    """One for all tests but the last, which stops it."""
    with new_server(max_body_bytes=LIMIT) as server:
        yield server


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Api]:
    with Api(server.url) as api:
        api.client.delete(api.path)
        api.create()
        yield api


@pytest.fixture
def connection(server: ServerProcess, api: Api) -> Iterator[Connection]:
    with Connection(server, report(0)) as connection:
        assert connection.status() == 200
        yield connection


def report(at: int, *headers: str) -> bytes:
    body = json.dumps({"time": TIME + at, "position": {"0": at}}).encode()
    return request(f"POST {PATH}", JSON, *headers, f"content-length: {len(body)}", body=body)


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
    with Connection(server, report(1, "connection: close")) as connection:
        assert connection.status() == 200
        assert connection.is_closed()


TOO_LARGE = (413, "body_too_large")


@pytest.mark.parametrize("expect", [[], ["expect: 100-continue"]], ids=["sends", "expects"])
@pytest.mark.parametrize("call", [f"POST {PATH}", f"POST {ONE}/events", f"GET {ONE}"])
def test_a_body_that_is_too_large_is_refused_before_any_of_it_came(
    connection: Connection, call: str, expect: list[str]
) -> None:
    connection.send(request(call, JSON, f"content-length: {10**12}", *expect))
    assert connection.answer() == TOO_LARGE


def test_a_body_that_is_too_large_is_read_to_its_end_and_the_connection_goes_on(
    connection: Connection,
) -> None:
    connection.send(request(f"POST {PATH}", JSON, "content-length: 20000000"))
    for _ in range(20):
        connection.send(b" " * 1_000_000)
    assert connection.answer() == TOO_LARGE
    connection.send(request(f"GET {ONE}"))
    assert connection.answer() == (200, "")


def test_a_body_in_chunks_is_refused_where_it_passes_the_limit(connection: Connection) -> None:
    chunk = b"%x\r\n%s\r\n" % (LIMIT, b" " * LIMIT)
    headers = (JSON, "transfer-encoding: chunked")
    connection.send(request("POST /v1/note-times", *headers, body=2 * chunk))
    assert connection.answer() == TOO_LARGE


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
