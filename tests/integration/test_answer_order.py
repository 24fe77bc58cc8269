"""What is malformed is refused after the answers that are due, and never in their place."""

import re
import socket

import pytest

from tests.server import ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "requests are read before any database")

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
def test_whole_requests_before_it_are_answered_first(
    shared_server: ServerProcess, whole: int, malformed: bytes, status: int
) -> None:
    sent = HEALTH * whole + malformed + HEALTH
    assert _statuses(shared_server, sent) == [200] * whole + [status]


def test_it_is_refused_at_once_if_it_is_the_first(shared_server: ServerProcess) -> None:
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
