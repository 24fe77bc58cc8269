"""Requests whose head came before take a short cut, and are answered as any other."""

import json
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from tests.conftest import NewServer
from tests.integration.connections import wait_until_read
from tests.integration.sessions import write_lock
from tests.patience import PATIENCE_S, wait_until
from tests.server import Api, ServerProcess
from tests.tokens import Tokens

TIME = 1_700_000_000_000
PATH = "/v1/streams/tests/one/writers/w/note-time"


@pytest.fixture(scope="module")
def server(new_server: NewServer) -> Iterator[ServerProcess]:
    """One for all tests but the last, which stops it."""
    with new_server(max_body_bytes=2_000) as server:
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
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=10)
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
    head = f"POST {path} HTTP/1.1\r\nhost: here\r\ncontent-type: application/json\r\n{headers}"
    return f"{head}content-length: {len(body)}\r\n\r\n{body}".encode()


def test_the_same_head_is_answered_the_same_again_whatever_its_length(
    api: Api, connection: Connection
) -> None:
    for at in (1, 2, 30, 4_000):
        connection.send(report(at))
        status, answer = connection.answer()
        assert (status, answer["state"]) == (200, "active")
        assert api.get("watermark")["watermark"] == TIME + at


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


def test_a_body_that_cannot_be_read_is_told_so(connection: Connection) -> None:
    body = report(1).replace(b'"time"', b'"tame"')
    connection.send(body)
    status, problem = connection.answer()
    assert (status, problem["code"]) == (422, "invalid_request")
    assert problem["errors"] == [
        {"field": "time", "message": "Field required"},
        {"field": "tame", "message": "this call has no such field"},
    ]


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
        threading.Event().wait(0.1)  # the loop waits, too, if the disk was quick before
    assert [connection.status(), connection.status()] == [200, 200]
    with write_lock(server.database_url):  # this time the loop does not wait: the disk was slow
        connection.send(report(3)[50:])
        connection.wait_until_read()
        connection.send(report(4))
        connection.send(report(5) + report(6)[:50])
        threading.Event().wait(0.1)  # it reads no more than one piece ahead
    assert [connection.status() for _ in range(3)] == [200, 200, 200]
    connection.send(report(6)[50:])
    assert connection.status() == 200


def test_a_deleted_stream_is_unknown_and_one_made_anew_is_another(
    api: Api, connection: Connection
) -> None:
    path = f"{PATH}?stream_id={api.get('watermark')['stream_id']}"
    for at in (1, 2):
        connection.send(report(at, path=path))
        assert connection.status() == 200
    api.client.delete(api.path).raise_for_status()
    connection.send(report(3, path=path))
    assert connection.answer()[1]["code"] == "unknown_stream"
    api.create()
    connection.send(report(3, path=path))
    assert connection.answer()[1]["code"] == "stream_replaced"
    connection.send(report(1))
    assert connection.status() == 200


def test_a_head_with_a_token_is_known_no_longer_than_the_token(
    new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    operator = tokens.header("operator", "tests", "operate")
    kept = tokens.file.read_text()
    withdrawn = tokens.text("withdrawn", "tests", "write")
    with new_server(tokens=tokens.file) as server:
        url = f"{server.url}/v1/streams/tests/one"
        httpx.put(url, json={"log": "external"}, headers=operator).raise_for_status()
        with Connection(server.port) as connection:
            assert _tries(connection, withdrawn, 2) == [(200, None), (200, None)]
            tokens.file.write_text(kept)
            wait_until(lambda: _tries(connection, withdrawn, 1) != [(200, None)])
            assert _tries(connection, withdrawn, 1) == [(401, "unauthenticated")]


def test_a_head_with_two_tokens_is_refused_each_time(
    new_server: NewServer, tmp_path: Path
) -> None:
    tokens = Tokens(tmp_path)
    operator = tokens.header("operator", "tests", "operate")
    shown = f"authorization: Bearer {tokens.text('writer', 'tests', 'write')}\r\n"
    with new_server(tokens=tokens.file) as server:
        url = f"{server.url}/v1/streams/tests/one"
        httpx.put(url, json={"log": "external"}, headers=operator).raise_for_status()
        with Connection(server.port) as connection:
            connection.send(report(1, headers=shown) * 3)
            assert [connection.status() for _ in range(3)] == [200, 200, 200]
            for headers in (f"{shown}Authorization: Bearer other\r\n", shown * 2) * 2:
                connection.send(report(2, headers=headers))
                status, problem = connection.answer()
                assert (status, problem["reason"]) == (401, "repeated")
                assert "more than one header `Authorization`" in str(problem["detail"])
            connection.send(report(3, headers=shown))
            assert connection.status() == 200


def _tries(connection: Connection, token: str, count: int) -> list[tuple[int, object]]:
    answers = []
    for _ in range(count):
        connection.send(report(1, headers=f"authorization: Bearer {token}\r\n"))
        answers.append(connection.answer())
    return [(status, answer.get("code")) for status, answer in answers]


def test_a_body_beyond_the_limit_is_refused_each_time(server: ServerProcess, api: Api) -> None:
    body = b'{"time": %d, "position": {}%s}' % (TIME, b" " * 2_000)
    head = f"POST {PATH} HTTP/1.1\r\nhost: here\r\ncontent-length: {len(body)}\r\n\r\n"
    for _ in range(3):
        with Connection(server.port) as connection:
            connection.send(report(1))
            assert connection.status() == 200
            connection.send(head.encode() + body)
            assert connection.answer()[1]["code"] == "body_too_large"
            assert connection.is_closed()


def test_a_wish_to_close_is_heard_each_time(server: ServerProcess, api: Api) -> None:
    for at in (1, 2):
        with Connection(server.port) as connection:
            connection.send(report(at, headers="connection: close\r\n"))
            assert connection.status() == 200
            assert connection.is_closed()


def test_a_body_in_chunks_is_read_each_time(connection: Connection) -> None:
    for at in (1, 2):
        whole = report(at, headers="transfer-encoding: chunked\r\n")
        head, _, body = whole.partition(b"\r\n\r\n")
        head = b"\r\n".join(line for line in head.split(b"\r\n") if b"length" not in line)
        connection.send(b"%s\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (head, len(body), body))
        assert connection.status() == 200


@pytest.mark.only_on("sqlite", "connections come before any database")
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
