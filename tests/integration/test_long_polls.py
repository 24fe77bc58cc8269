"""Long polls go on, whatever becomes of the controller that holds their stream."""

import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from tests.integration.controllers import NOW, Controllers, controllers, create
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess
from tidegauge.wire.events import ARROW

STREAMS = ["tests/a", "tests/b", "tests/c", "tests/d"]
CALLS = ["marks?after=0", "tail?after=0:0", "segments/0/events?start=0"]
SHORT_LEASE_MS = 500
PATIENCE_FOR_HOLDERS_S = 2 * (SHORT_LEASE_MS / 1_000 + 1)


@pytest.fixture
def two(cluster: Cluster, tmp_path: Path) -> Iterator[Controllers]:
    with controllers(cluster, tmp_path, 2, lease_ms=SHORT_LEASE_MS) as running:
        create(running.servers[0].url, *STREAMS, log="embedded")
        wait_until(lambda: running.held() == [2, 2, 0])
        yield running


@contextmanager
def _polling(
    two: Controllers, servers: list[ServerProcess], streams: list[str]
) -> Iterator[Callable[[], list[str]]]:
    """Wait for news of streams by every call that can, at some servers.

    Gives what has them come, and tells the calls that were not answered with them.
    """
    paths = [f"/v1/streams/{stream}/{call}" for stream in streams for call in CALLS]
    urls = [server.url + path for server in servers for path in paths]
    with ThreadPoolExecutor(len(urls)) as threads:
        asked = {url: threads.submit(_poll, url) for url in urls}
        try:
            wait_until(lambda: _waiting(two.servers) == len(urls))
            yield lambda: _tell_news(servers[0], streams, asked)
        finally:
            for server in servers:
                server.process.send_signal(signal.SIGCONT)


def _poll(url: str) -> httpx.Response:
    return httpx.get(f"{url}&wait_ms=30000", timeout=PATIENCE_S)


def _waiting(servers: list[ServerProcess]) -> int:
    shown = [one for server in servers for one in server.metrics().splitlines()]
    return sum(
        int(float(one.split()[1])) for one in shown if one.startswith("tidegauge_long_polls ")
    )


def _tell_news(
    server: ServerProcess, streams: list[str], asked: dict[str, Future[httpx.Response]]
) -> list[str]:
    for stream in streams:
        _append(server, stream)
    answers = {url: one.result(PATIENCE_S) for url, one in asked.items()}
    return [f"{url}: {one.text}" for url, one in answers.items() if not _has_news(one)]


def _append(server: ServerProcess, stream: str) -> None:
    answer = httpx.post(
        f"{server.url}/v1/streams/{stream}/events?writer=w&note_time={NOW}",
        content=f'{{"key": "k", "event_time": {NOW}, "value": "x"}}',
        headers={"content-type": "application/x-ndjson"},
        timeout=20,
    )
    answer.raise_for_status()


def _has_news(answer: httpx.Response) -> bool:
    if answer.headers["content-type"] == ARROW:
        return bool(pa.ipc.open_stream(answer.content).read_all().num_rows)
    news = answer.json()
    return bool(news.get("marks") or news.get("tail") == {"0": 1})


def test_who_waits_for_a_stream_waits_on_where_it_moves(
    two: Controllers, tmp_path: Path
) -> None:
    place = tmp_path / "third"
    place.mkdir()
    with _polling(two, two.servers, STREAMS) as tell_news:
        before = _waiting(two.servers)
        third = ServerProcess(place, database_url=two.database_url, lease_ms=SHORT_LEASE_MS)
        with third:
            wait_until(lambda: sorted(two.held()) == [0, 1, 1, 2])
            wait_until(lambda: _waiting([*two.servers, third]) == before)
            assert tell_news() == []


def test_who_waits_for_long_where_a_controller_is_lost_waits_on_at_another(
    two: Controllers,
) -> None:
    lost = two.holder_of("tests/a")
    (other,) = (one for one in two.servers if one is not lost)
    began = time.monotonic()
    with _polling(two, [other], ["tests/a"]) as tell_news:
        wait_until(lambda: time.monotonic() > began + PATIENCE_FOR_HOLDERS_S)
        lost.kill()
        other.wait_for_waiting(len(CALLS))
        assert tell_news() == []


def test_who_waits_where_a_lease_was_lost_waits_on_at_the_new_holder(
    two: Controllers,
) -> None:
    paused = two.holder_of("tests/a")
    with _polling(two, [paused], ["tests/a"]) as tell_news:
        paused.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: two.held() == [4, 0])
        paused.process.send_signal(signal.SIGCONT)
        wait_until(lambda: "the lease is lost" in paused.log.read_text())
        assert tell_news() == []
