"""Who hangs up: a call that waits for news ends at once, and a request that is not whole is not taken."""

import re
import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.integration.connections import wait_until_read
from tests.integration.controllers import Controllers, controllers, create
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess

STREAMS = ["tests/a", "tests/b"]
WHOLE = {
    "events": b'{"key": "k", "event_time": 1, "value": "v"}\n',
    "writers/w/note-time": b'{"time": 1700000000000}',
}
TYPES = {"events": "application/x-ndjson", "writers/w/note-time": "application/json"}
CALLS = ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"]


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """One holds the stream and has two seats; the other passes on what is about it."""
    directory = tmp_path_factory.mktemp("seats")
    with controllers(cluster, directory, 2, max_long_polls=2) as running:
        create(running.servers[0].url, *STREAMS, log="embedded")
        wait_until(lambda: running.held() == [1, 1, 0])
        yield running


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("passed_on", [False, True], ids=["here", "passed on"])
def test_a_seat_is_free_once_who_had_it_hangs_up(
    two: Controllers, call: str, *, passed_on: bool
) -> None:
    holder = two.holder_of("tests/a")
    (other,) = (one for one in two.servers if one is not holder)
    asked = other if passed_on else holder
    request = (
        f"GET /v1/streams/tests/a/{call}&wait_ms=30000 HTTP/1.1\r\nhost: localhost\r\n\r\n"
    )
    with _asking(asked, request) as staying:
        holder.wait_for_waiting(1)
        for _ in range(2):
            with _asking(asked, request):
                holder.wait_for_waiting(2)
            holder.wait_for_waiting(1)
        assert select.select([staying], [], [], 0)[0] == []  # it asked first, and has no answer
    holder.wait_for_waiting(0)
    assert [_defects(one) for one in two.servers] == [0, 0]


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
def test_what_is_cut_off_is_not_taken_here_nor_elsewhere(two: Controllers, call: str) -> None:
    refused = r'http_request_duration_seconds_count{.*status="4xx"} (\d+)'
    for server in two.servers:
        before = _metric(server, refused)
        for stream in STREAMS:
            _hang_up_in(server, stream, call)
        wait_until(lambda one=server, least=before + 2: _metric(one, refused) == least)  # type: ignore[misc]
        assert _metric(server, r"defects_total (\d+)") == 0
    for stream in STREAMS:
        path = f"{two.servers[0].url}/v1/streams/{stream}"
        assert httpx.get(path).json()["tail"] == {"0": 0}
        assert httpx.get(f"{path}/writers").json()["writers"] == []
