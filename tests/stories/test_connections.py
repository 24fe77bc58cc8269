"""What comes on one connection is answered in order, in whatever pieces."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Self

import pytest

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.service.api import Api
from tests.service.connections import wait_until_read
from tests.service.sessions import write_lock

pytestmark = pytest.mark.only_on("sqlite", "connections come before any database")

TIME = 1_700_000_000_000
PATH = "/v1/streams/tests/one/writers/w/note-time"


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    """One for all tests but the last, which stops it."""
    with new_server() as server:
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
