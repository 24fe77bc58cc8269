"""Who waits for news and hangs up gives its seat back at once, not when its time is over."""

import re
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.integration.controllers import Controllers, controllers, create
from tests.patience import wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess

CALLS = ["marks?after=9", "tail?after=0:0&revision=9", "segments/0/events?start=0"]


@pytest.fixture(scope="module")
def two(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Controllers]:
    """One holds the stream and has one seat; the other passes on what is about it."""
    directory = tmp_path_factory.mktemp("seats")
    with controllers(cluster, directory, 2, max_long_polls=1) as running:
        create(running.servers[0].url, "tests/a", "tests/b", log="embedded")
        wait_until(lambda: running.held() == [1, 1, 0])
        yield running


def _metric(server: ServerProcess, pattern: str) -> int:
    return sum(map(int, re.findall(pattern, httpx.get(f"{server.url}/metrics").text)))


def _waiting(server: ServerProcess) -> int:
    return _metric(server, r"\ntidegauge_long_polls (\d+)")


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("passed_on", [False, True], ids=["here", "passed on"])
def test_a_seat_is_free_once_who_had_it_hangs_up(
    two: Controllers, call: str, *, passed_on: bool
) -> None:
    holder = two.holder_of("tests/a")
    (other,) = (one for one in two.servers if one is not holder)
    asked = other if passed_on else holder
    request = f"GET /v1/streams/tests/a/{call}&wait_ms=30000 HTTP/1.1\r\nhost: here\r\n\r\n"
    for _ in range(2):
        with socket.create_connection(("127.0.0.1", asked.port)) as connection:
            connection.sendall(request.encode())
            wait_until(lambda: _waiting(holder) == 1)
        wait_until(lambda: _waiting(holder) == 0)
    assert [_metric(one, r"defects_total (\d+)") for one in two.servers] == [0, 0]
