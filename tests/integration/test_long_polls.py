"""Long polls go on, whatever becomes of the controller that holds their stream."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from tests.integration.controllers import NOW, controllers, create
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import Api, ServerProcess
from tests.simulation.cluster import Controller
from tests.simulation.quiet import QuietWorld
from tidegauge.wire.events import ARROW

STREAMS = ["tests/a", "tests/b", "tests/c", "tests/d"]
CALLS = ["marks?after=0", "tail?after=0:0", "segments/0/events?start=0"]
LONG_S = 6
"""Twice as long as a call waits for a holder under virtual time, and longer."""


def _poll(url: str) -> httpx.Response:
    return httpx.get(f"{url}&wait_ms=30000", timeout=PATIENCE_S)


def _waiting(servers: list[ServerProcess]) -> int:
    shown = [one for server in servers for one in server.metrics().splitlines()]
    return sum(
        int(float(one.split()[1])) for one in shown if one.startswith("tidegauge_long_polls ")
    )


def _append(client: httpx.Client, stream: str) -> None:
    answer = client.post(
        f"/v1/streams/{stream}/events?writer=w&note_time={NOW}",
        content=f'{{"key": "k", "event_time": {NOW}, "value": "x"}}',
        headers={"content-type": "application/x-ndjson"},
    )
    answer.raise_for_status()


def _has_news(answer: httpx.Response) -> bool:
    if answer.headers["content-type"] == ARROW:
        return bool(pa.ipc.open_stream(answer.content).read_all().num_rows)
    news = answer.json()
    return bool(news.get("marks") or news.get("tail") == {"0": 1})


def test_who_waits_for_a_stream_waits_on_where_it_moves(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 2) as two:
        create(two.servers[0].url, *STREAMS, log="embedded")
        wait_until(lambda: two.held() == [2, 2, 0])
        paths = [f"/v1/streams/{stream}/{call}" for stream in STREAMS for call in CALLS]
        urls = [server.url + path for server in two.servers for path in paths]
        place = tmp_path / "third"
        place.mkdir()
        third = ServerProcess(place, database_url=two.database_url)
        with ThreadPoolExecutor(len(urls)) as threads:
            asked = {url: threads.submit(_poll, url) for url in urls}
            wait_until(lambda: _waiting(two.servers) == len(urls))
            before = _waiting(two.servers)
            with third, httpx.Client(base_url=two.servers[0].url, timeout=20) as client:
                wait_until(lambda: sorted(two.held()) == [0, 1, 1, 2])
                wait_until(lambda: _waiting([*two.servers, third]) == before)
                for stream in STREAMS:
                    _append(client, stream)
                answers = {url: one.result(PATIENCE_S) for url, one in asked.items()}
    assert [url for url, one in answers.items() if not _has_news(one)] == []


def _poll_quietly(world: QuietWorld, server: Controller) -> list[asyncio.Task[httpx.Response]]:
    """Wait for news of a stream by every call that can."""
    urls = [f"/v1/streams/{STREAMS[0]}/{call}&wait_ms=30000" for call in CALLS]
    return [world.begin(world.client(server).get(url)) for url in urls]


def _two(world: QuietWorld) -> tuple[Controller, Controller]:
    """Create a stream; tell its holder, and the other controller."""
    with Api(world.controllers[0].url, STREAMS[0], transport=world.transport()) as api:
        api.create(log="embedded")
    world.sleep(LONG_S)
    holder = world.holder_of(STREAMS[0])
    (other,) = (one for one in world.controllers if one is not holder)
    return holder, other


@pytest.mark.parametrize("world", [2], indirect=True)
def test_who_waits_for_long_where_a_controller_is_lost_waits_on_at_another(
    world: QuietWorld,
) -> None:
    lost, other = _two(world)
    asked = _poll_quietly(world, other)
    world.sleep(LONG_S)
    world.kill(lost)
    world.until(lambda: world.held() == [1, 0])
    world.sleep(1)
    _append(httpx.Client(base_url=other.url, transport=world.transport()), STREAMS[0])
    assert [one.text for one in map(world.wait, asked) if not _has_news(one)] == []


@pytest.mark.parametrize("world", [2], indirect=True)
def test_who_waits_where_a_lease_was_lost_waits_on_at_the_new_holder(world: QuietWorld) -> None:
    paused, other = _two(world)
    asked = _poll_quietly(world, paused)
    world.sleep(1)
    paused.node.pause_for(LONG_S)
    world.until(lambda: world.held() == [1, 0])
    world.sleep(LONG_S)
    assert world.holder_of(STREAMS[0]) is other
    _append(httpx.Client(base_url=paused.url, transport=world.transport()), STREAMS[0])
    assert [one.text for one in map(world.wait, asked) if not _has_news(one)] == []
