"""Segments split and merge while writers write, readers read, and the service and readers die."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import httpx

from reader_client import StreamClient
from tests.conftest import NewServer
from tests.effort import Effort
from tests.integration.scaling_crowd import (
    Crowd,
    Seen,
    check_each_key_once_and_in_order,
    check_nothing_is_late,
    check_windows,
    read_log,
)
from tests.patience import wait_until
from tests.server import ServerProcess

WRITERS, READERS = 10, 5
STREAM = "scaling/crowd"
GROUP = f"/v1/reader-groups/{STREAM}"
_MOST_GROWING = 6


def test_nothing_is_lost_late_or_out_of_order_while_segments_scale(
    new_server: NewServer, tmp_path: Path, effort: Effort
) -> None:
    chance = random.Random(17)
    with (
        new_server() as server,
        StreamClient(server.url, STREAM) as client,
        Crowd(server.url, STREAM, tmp_path) as crowd,
        ThreadPoolExecutor() as threads,
    ):
        client.create(segments=2, mark_interval_ms=50, mark_resolution_ms=100)
        body = {"streams": [STREAM], "heartbeat_ms": 100, "dead_after_ms": 3_000}
        httpx.put(server.url + GROUP, json=body).raise_for_status()
        crowd.start_writers(WRITERS)
        for _ in range(READERS):
            crowd.start_reader()
        with _watching(server, threads) as seen:
            _wait_for_progress(client, seen)
            for step in range(effort.times("scalings", short=8, long=60)):
                scaling = threads.submit(_scale_somehow, client, chance)
                if step % 3 == 0:
                    server.kill()
                    server.start()
                scaling.result()
                if step % 2 == 0:
                    crowd.kill_reader(chance.randrange(READERS))
                crowd.check()
                _wait_for_progress(client, seen)
            written = crowd.stop_writers()
            wait_until(lambda: seen[-1].position == client.tail().tail)
        events = read_log(client)
        check_each_key_once_and_in_order(events, crowd.deliveries(), written)
        check_nothing_is_late(client, events)
        check_windows(client, events, seen)


def _scale_somehow(client: StreamClient, chance: random.Random) -> None:
    """Split a growing segment or merge two neighbours."""
    topology = client.topology()
    growing = sorted(topology.unsealed, key=lambda one: topology[one].key_range or (0, 0))
    if len(growing) < _MOST_GROWING and (len(growing) < 2 or chance.random() < 0.5):
        client.split(chance.choice(growing), chance.choice([2, 2, 3]))
    else:
        at = chance.randrange(len(growing) - 1)
        client.merge(growing[at : at + 2])


def _wait_for_progress(client: StreamClient, seen: list[Seen]) -> None:
    """Wait until event time has risen at the service, and then for the group."""
    before = client.explain().watermark
    if before is None:
        wait_until(lambda: bool(seen))
        return
    client.wait_until(before + 1)
    wait_until(lambda: bool(seen) and seen[-1].lower > before)


@contextmanager
def _watching(server: ServerProcess, threads: ThreadPoolExecutor) -> Iterator[list[Seen]]:
    """Look at the window of the group again and again; an outage is no look."""
    seen: list[Seen] = []
    stop = Flag()

    def watch() -> None:
        while not stop.wait(0.05):
            try:
                answer = httpx.get(f"{server.url}{GROUP}/time-window?stream={STREAM}")
            except httpx.TransportError:
                continue
            if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                continue
            window = answer.raise_for_status().json()
            if window["lower"] is not None:
                position = {int(one): at for one, at in window["position"].items()}
                seen.append(Seen(window["lower"], position))

    watching = threads.submit(watch)
    try:
        yield seen
    finally:
        stop.set()
    watching.result()
