"""Segments split and merge while writers write, readers read, and the service and readers die."""

import random
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from operator import attrgetter
from pathlib import Path
from threading import Event as Flag

import httpx
import pytest

from reader_client import StreamClient
from tests.conftest import NewServer
from tests.effort import Effort
from tests.patience import PATIENCE_S, wait_until
from tests.server import ServerProcess
from tests.service.scaling_crowd import (
    Crowd,
    Seen,
    check_each_key_once_and_in_order,
    check_nothing_is_late,
    check_windows,
    read_log,
)
from tidegauge.lattice import cut_of
from tidegauge.topology import Position

STREAM = "scaling/crowd"
GROUP = f"/v1/reader-groups/{STREAM}"
_MOST_GROWING = 6
_POLICY = {"events_per_s": 80, "window_ms": 2_000, "cooldown_ms": 2_000}
"""Ten writers write some 1 000 events a second, or 100: too many for three segments, or too few."""


class Scene:
    """A crowd at a service, the windows that its group was told, and what disturbs it."""

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self.client = StreamClient(server.url, STREAM)
        self.crowd = Crowd(server.url, STREAM, folder)
        self.chance = random.Random(17)
        self.seen: list[Seen] = []
        self.recoveries: list[tuple[int, int]] = []
        """From when a process was killed until the window rose again, ns."""

    @contextmanager
    def running(self, *, writers: int, readers: int, queries: int) -> Iterator[None]:
        """Create the stream, and let everybody work."""
        self.client.create(segments=2, mark_interval_ms=50, mark_resolution_ms=100)
        body = {"streams": [STREAM], "heartbeat_ms": 100, "dead_after_ms": 1_500}
        httpx.put(self.server.url + GROUP, json=body).raise_for_status()
        with self.client, self.crowd as crowd, ThreadPoolExecutor() as threads:
            crowd.start_writers(writers)
            crowd.start_queries(queries)
            for _ in range(readers):
                crowd.start_reader()
            stop = Flag()
            watching = threads.submit(self._watch, stop)
            try:
                self.wait_for_progress()
                yield
            finally:
                stop.set()
            watching.result()

    def _watch(self, stop: Flag) -> None:
        """Look at the window of the group again and again; an outage is no look."""
        with httpx.Client(base_url=self.server.url, timeout=PATIENCE_S) as calls:
            while not stop.wait(0.02):
                try:
                    answer = calls.get(f"{GROUP}/time-window", params={"stream": STREAM})
                except httpx.TransportError:
                    continue
                if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
                    continue
                window = answer.raise_for_status().json()
                if window["lower"] is not None:
                    position = {int(one): at for one, at in window["position"].items()}
                    times = window["lower"], position, window["watermark"]
                    self.seen.append(Seen(*times, at=time.monotonic_ns()))

    def wait_for_progress(self) -> None:
        """Wait until event time has risen at the service, and then for the group."""
        before = self.client.explain().watermark
        if before is None:
            wait_until(lambda: bool(self.seen))
            return
        self.client.wait_until(before + 1)
        wait_until(lambda: bool(self.seen) and self.seen[-1].lower > before)
        self.crowd.check()

    @contextmanager
    def recovering(self) -> Iterator[None]:
        """Note how long it takes until the window rises again."""
        killed = time.monotonic_ns()
        yield
        self.wait_for_progress()
        self.recoveries.append((killed, time.monotonic_ns()))

    def scale(self) -> None:
        """Split a growing segment or merge two neighbours."""
        topology, chance = self.client.topology(), self.chance
        growing = sorted(topology.unsealed, key=lambda one: topology[one].key_range or (0, 0))
        if len(growing) < _MOST_GROWING and (len(growing) < 2 or chance.random() < 0.5):
            self.client.split(chance.choice(growing), chance.choice([2, 2, 3]))
        else:
            at = chance.randrange(len(growing) - 1)
            self.client.merge(growing[at : at + 2])

    def scale_while_it_dies(self) -> None:
        """Scale while the service is killed and started again."""
        with self.recovering(), ThreadPoolExecutor() as threads:
            scaling = threads.submit(self.scale)
            self.server.kill()
            self.server.start()
            scaling.result()

    def kill_a_reader(self) -> None:
        """Kill one of the readers, whichever."""
        with self.recovering():
            self.crowd.kill_reader(self.chance.randrange(1_000))

    def let_the_load_rise_and_fall(self) -> None:
        """Let the policy act on a load that falls and rises tenfold."""
        self.crowd.slow_down(slow=True)
        wait_until(lambda: self._growing() <= 3)
        self.kill_a_reader()
        self.crowd.slow_down(slow=False)
        wait_until(lambda: self._growing() >= 4)
        with self.recovering():
            self.server.kill()
            self.server.start()

    def _growing(self) -> int:
        self.crowd.check()
        return len(self.client.topology().unsealed)

    def longest_stand_ms(self, of: Callable[[Seen], int]) -> int:
        """Find how long a time stood at most, to whoever looks, while nobody recovered."""
        rises = [second.at for first, second in pairwise(self.seen) if of(second) > of(first)]
        stands = [
            end - start
            for start, end in pairwise(rises)
            if not any(start < back and killed < end for killed, back in self.recoveries)
        ]
        return max(stands) // 1_000_000

    def end(self) -> Position:
        """Tell where the stream ends; the policy may still scale it."""
        return cut_of(self.client.topology(), self.client.tail().tail)

    def end_and_check(self) -> None:
        """Let everybody come to the end, and compare what they saw with what was written."""
        written = self.crowd.stop_writers()
        wait_until(lambda: self.seen[-1].position == self.end())
        events, first = read_log(self.client), self.crowd.deliveries()
        check_each_key_once_and_in_order(events, first, written)
        check_windows(self.seen, events, first)
        check_nothing_is_late(self.client, events, self.seen)
        httpx.post(f"{self.server.url}/v1/streams/{STREAM}/seal").raise_for_status()
        self.crowd.check_queries(events)


@pytest.mark.soak  # `make test` scales and kills in test_scaling_clients and test_crashes
def test_nothing_is_lost_late_or_out_of_order_while_segments_scale(
    new_server: NewServer, tmp_path: Path, effort: Effort
) -> None:
    with new_server() as server:
        scene = Scene(server, tmp_path)
        with scene.running(writers=10, readers=5, queries=1):
            for step in range(20):
                if step % 4 == 3:
                    scene.scale_while_it_dies()
                else:
                    scene.scale()
                    scene.wait_for_progress()
                if step % 3 == 1:
                    scene.kill_a_reader()
            scene.client.configure(scaling=_POLICY, max_segments=8)
            for _ in range(2):
                scene.let_the_load_rise_and_fall()
            for _ in range(30):
                scene.kill_a_reader()
            scene.end_and_check()
        watermark, window = attrgetter("watermark"), attrgetter("lower")
        effort.note("ms that the watermark stood at most", scene.longest_stand_ms(watermark))
        effort.note("ms that the window stood at most", scene.longest_stand_ms(window))
