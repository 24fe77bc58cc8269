"""A request that did not come to its end is not taken, though what came looks like a whole."""

import re
import socket
from collections.abc import Iterator

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


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """Each holds one of the streams, and passes on what is about the other."""
    with controllers(cluster, tmp_path_factory.mktemp("cut"), 2) as running:
        create(running.servers[0].url, *STREAMS, log="embedded")
        wait_until(lambda: running.held() == [1, 1, 0])
        yield running


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
