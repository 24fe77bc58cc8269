"""Controllers and database are killed, paused and restarted under load from many writers.

With `mark_resolution_ms` 0, no time-outs and all writers known from the start, the marks follow
from what each writer reported alone, in whatever order the reports came in: one for every time
that was noted, up to the least of the latest ones. So each can be computed by its definition.
"""

import asyncio
import random
import signal
import time
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.integration.controllers import LEASE_MS, NOW, Controllers, controllers, create
from tests.patience import PATIENCE_S, until, wait_until
from tests.postgres import Cluster, running_cluster

STREAMS = ["load/a", "load/b", "load/c", "load/d"]
WRITERS = 4
"""For each stream."""
FAULTS = ("kill", "pause", "restart the database", "pause shortly", "stop")
BUSY_S = 10.0
"""How late things may be, beyond what the rules allow, because this machine is busy."""
LOST = (httpx.TransportError,)


class Report(NamedTuple):
    time: int
    position: dict[int, int]


@dataclass
class Load:
    """What was accepted."""

    chance: random.Random
    clients: list[httpx.AsyncClient]
    reports: dict[str, dict[str, list[Report]]] = field(
        default_factory=lambda: {stream: {} for stream in STREAMS}
    )
    incarnations: dict[str, int] = field(default_factory=dict)
    progress: dict[str, float] = field(default_factory=dict)
    slowest_s: float = 0.0
    stopped: bool = False

    async def until_accepted(self, path: str, body: dict[str, Any]) -> Any:
        """Ask one controller after another until one says that it is done."""
        while True:
            try:
                answer = await self.chance.choice(self.clients).post(path, json=body)
            except LOST:
                answer = None
            if answer is not None and answer.is_success:
                return answer.json()
            assert answer is None or answer.status_code in {502, 503}, answer.text
            await asyncio.sleep(0.02)

    def note_progress(self, stream: str) -> None:
        """Remember the longest time without a report that was accepted."""
        now = time.monotonic()
        self.slowest_s = max(self.slowest_s, now - self.progress.get(stream, now))
        self.progress[stream] = now

    def accepted(self) -> list[int]:
        """Count the reports that were accepted, of each writer."""
        return [len(one) for writers in self.reports.values() for one in writers.values()]

    async def until_all_go_on(self) -> None:
        """Wait until each writer had a report accepted that it made from now on."""
        # One may have been on its way; the next was made afterwards.
        wanted = [count + 2 for count in self.accepted()]
        await until(lambda: all(map(int.__ge__, self.accepted(), wanted)))


async def _write(load: Load, stream: str, writer: str) -> None:
    """Report later times and further positions for ever, each until it is accepted."""
    path = f"/v1/streams/{stream}/writers/{writer}"
    reports = load.reports[stream][writer]
    reached = {0: 0, 1: 0}
    noted = NOW
    while not load.stopped:
        noted += load.chance.randrange(1, 200)
        partition = load.chance.randrange(2)
        reached[partition] += load.chance.randrange(1, 9)
        position = {partition: reached[partition]}
        body = {"time": noted, "position": {str(partition): reached[partition]}}
        if load.chance.random() < 0.2:
            many = {"reports": [{"stream": stream, "writer": writer, **body}]}
            await _until_all_are_accepted(load, many)
        else:
            await load.until_accepted(f"{path}/note-time", body)
        reports.append(Report(noted, position))
        load.note_progress(stream)
        await asyncio.sleep(load.chance.uniform(0.03, 0.12))


async def _until_all_are_accepted(load: Load, many: dict[str, Any]) -> None:
    while True:
        results = (await load.until_accepted("/v1/note-times", many))["results"]
        if all(one["status"] == 200 for one in results):
            return
        assert {one["status"] for one in results} <= {200, 502, 503}, results


async def _register(load: Load, writer: str) -> None:
    """Register for ever; every answer tells a higher incarnation than the one before."""
    path = f"/v1/streams/load/restarts/writers/{writer}/register"
    while not load.stopped:
        answer = await load.until_accepted(path, {})
        assert answer["incarnation"] > load.incarnations.get(writer, 0)
        load.incarnations[writer] = answer["incarnation"]
        await asyncio.sleep(load.chance.uniform(0.02, 0.1))


async def _watch(load: Load, stream: str, seen: dict[int, Any]) -> None:
    """Follow the marks as a reader does, now here and now there."""
    while not load.stopped:
        query = {"after": max(seen, default=0), "wait_ms": 300}
        try:
            client = load.chance.choice(load.clients)
            answer = await client.get(f"/v1/streams/{stream}/marks", params=query)
        except LOST:
            answer = None
        if answer is None or not answer.is_success:
            await asyncio.sleep(0.02)
            continue
        for mark in answer.json()["marks"]:
            assert seen.setdefault(mark["revision"], mark) == mark


async def _bring_about(
    all_of_them: Controllers, cluster: Cluster, load: Load, fault: str, at: int
) -> None:
    """Let something fail until it is bridged, or for less than a lease lasts."""
    server = all_of_them.servers[at]
    if fault == "restart the database":
        await asyncio.to_thread(cluster.restart)
    elif fault == "pause shortly":
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_MS / 1_000 * 0.4)
        server.process.send_signal(signal.SIGCONT)
    elif fault == "pause":
        server.process.send_signal(signal.SIGSTOP)
        held_by_others = partial(_is_held_by, all_of_them, len(all_of_them.servers) - 1)
        await asyncio.to_thread(wait_until, held_by_others)
        server.process.send_signal(signal.SIGCONT)
    else:
        await asyncio.to_thread(server.kill if fault == "kill" else server.stop)
        await load.until_all_go_on()
        await asyncio.to_thread(server.start)
    await load.until_all_go_on()


def _is_held_by(all_of_them: Controllers, count: int) -> bool:
    *held, free = all_of_them.held()
    return len(held) == count and free == 0


async def _run(all_of_them: Controllers, cluster: Cluster, chance: random.Random) -> None:
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx.AsyncClient(base_url=one.url, timeout=PATIENCE_S)
            )
            for one in all_of_them.servers
        ]
        await _load_and_check(all_of_them, cluster, Load(chance, clients))


async def _load_and_check(all_of_them: Controllers, cluster: Cluster, load: Load) -> None:
    chance, clients = load.chance, load.clients
    marks: dict[str, dict[int, Any]] = {stream: {} for stream in STREAMS}
    writers = [f"w{number}" for number in range(WRITERS)]
    for stream in STREAMS:
        for writer in writers:
            path = f"/v1/streams/{stream}/writers/{writer}/note-time"
            await load.until_accepted(path, {"time": NOW, "position": {}})
            load.reports[stream][writer] = [Report(NOW, {})]
    work: list[Coroutine[Any, Any, None]] = [
        *(_write(load, stream, writer) for stream in STREAMS for writer in writers),
        *(_watch(load, stream, marks[stream]) for stream in STREAMS),
        *(_register(load, writer) for writer in writers[:2]),
    ]
    async with asyncio.TaskGroup() as tasks:
        for one in work:
            tasks.create_task(one)
        for fault in FAULTS:
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            at = chance.randrange(len(clients))
            await _bring_about(all_of_them, cluster, load, fault, at)
        load.stopped = True
    for client in clients:
        await _check(load, client, marks)
    assert load.slowest_s < LEASE_MS / 1_000 + 1 + BUSY_S


async def _check(
    load: Load, client: httpx.AsyncClient, seen: dict[str, dict[int, Any]]
) -> None:
    """Nothing accepted is lost, and the marks are those that follow from it."""
    for stream in STREAMS:
        marks = await _all_marks(client, stream)
        assert [one["revision"] for one in marks] == list(range(1, len(marks) + 1))
        expected = list(_expected_marks(load.reports[stream]))
        assert [(one["lower"], one["upper"], one["cut"]) for one in marks] == expected
        for revision, mark in seen[stream].items():
            assert marks[revision - 1] == mark
        assert max(seen[stream]) > len(FAULTS)
        stored = await _writers(client, stream)
        for writer, reports in load.reports[stream].items():
            assert stored[writer]["time"] == reports[-1].time
    stored = await _writers(client, "load/restarts")
    for writer, incarnation in load.incarnations.items():
        assert stored[writer]["incarnation"] == incarnation


async def _all_marks(client: httpx.AsyncClient, stream: str) -> list[dict[str, Any]]:
    marks: list[dict[str, Any]] = []
    while True:
        query = {"after": len(marks), "limit": 1_000}
        answer = await client.get(f"/v1/streams/{stream}/marks", params=query)
        page = answer.raise_for_status().json()["marks"]
        if not page:
            return marks
        marks += page


async def _writers(client: httpx.AsyncClient, stream: str) -> dict[str, Any]:
    answer = await client.get(f"/v1/streams/{stream}/writers")
    return {one["writer"]: one for one in answer.raise_for_status().json()["writers"]}


def _expected_marks(
    reports: dict[str, list[Report]],
) -> Iterator[tuple[int, int, dict[str, int]]]:
    """Compute all marks by their definition."""
    least = min(one[-1].time for one in reports.values())
    times = sorted({report.time for one in reports.values() for report in one})
    cut, upper = {"0": 0, "1": 0}, 0
    for lower in times[: times.index(least) + 1]:
        for one in reports.values():
            passed = next(at for at, report in enumerate(one) if report.time >= lower)
            upper = max(upper, lower, one[passed].time)
            for report in one[: passed + 1]:
                for partition, offset in report.position.items():
                    cut[str(partition)] = max(cut[str(partition)], offset)
        yield lower, upper, dict(cut)


@pytest.mark.parametrize("seed", [8470])
def test_whatever_is_lost_no_report_is_and_every_mark_is_what_it_should_be(
    tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    with running_cluster() as cluster, controllers(cluster, tmp_path, 3) as all_of_them:
        url = all_of_them.servers[0].url
        create(url, *STREAMS, segments=2, aggregation_timeout_ms=None)
        create(url, "load/restarts", aggregation_timeout_ms=None)
        asyncio.run(_run(all_of_them, cluster, chance))
