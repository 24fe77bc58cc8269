"""Controllers, their clocks and their database fail under load from many writers.

With `mark_resolution_ms` 0, nobody timed out and all writers known from the start, the marks follow
from what each writer reported alone, in whatever order the reports came in: one for every time
that was noted, up to the least of the latest ones. So each can be computed by its definition.
"""

import asyncio
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.effort import Effort
from tests.patience import PATIENCE_S, wait_until
from tests.postgres import Cluster
from tests.server import ServerProcess
from tests.service.controllers import (
    LEASE_MS,
    NOW,
    Controllers,
    answers,
    controllers,
    create,
    is_ready,
)
from tests.service.hold_clock import (
    TIMEOUT_MS,
    HoldClock,
    check_not_charged,
    check_not_restarted,
)
from tests.service.lease_load import HELD, SILENT, STREAMS, WRITERS, Load, Report
from tests.stepping import launcher, step

SEED = "8470"
BUSY_S = 10.0
"""How late things may be, beyond what the rules allow, because this machine is busy."""
DAY_S, HOUR_S = 86_400, 3_600


@dataclass
class Scene:
    """What can fail.

    Attributes
    ----------
    directory
        Of the clocks.
    unheard_s
        For how long nobody could listen.
    """

    controllers: Controllers
    cluster: Cluster
    directory: Path
    load: Load
    unheard_s: float = 0.0

    async def kill(self, server: ServerProcess) -> None:
        await self._do_without(server, server.kill)

    async def stop(self, server: ServerProcess) -> None:
        await self._do_without(server, server.stop)

    async def _do_without(self, server: ServerProcess, end: Callable[[], object]) -> None:
        await asyncio.to_thread(end)
        await self.load.until_all_go_on()
        server.launch()
        await asyncio.to_thread(wait_until, partial(answers, server))

    async def pause(self, server: ServerProcess) -> None:
        """Let it wake up when others have taken over."""
        server.process.send_signal(signal.SIGSTOP)
        others = [one for one in self._servers if one is not server]
        await asyncio.to_thread(wait_until, lambda: any(map(is_ready, others)))
        server.process.send_signal(signal.SIGCONT)

    async def pause_shortly(self, server: ServerProcess) -> None:
        """Let it wake up before its lease is over."""
        server.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(LEASE_MS / 1_000 * 0.4)
        server.process.send_signal(signal.SIGCONT)

    async def restart_database(self, _: ServerProcess) -> None:
        await asyncio.to_thread(self.cluster.restart)

    async def be_away_for_an_hour(self, _: ServerProcess) -> None:
        """Let all be dead, until their clocks are on by an hour."""
        for one in self._servers:
            one.kill()
        since = time.monotonic()
        for one in self._servers:
            step(one, self.directory, wall_s=HOUR_S, monotonic_s=HOUR_S)
        self.unheard_s += time.monotonic() - since
        for one in self._servers:
            one.launch()

    async def set_wall_clock_on(self, server: ServerProcess) -> None:
        step(server, self.directory, wall_s=DAY_S)

    async def set_wall_clock_back(self, server: ServerProcess) -> None:
        step(server, self.directory, wall_s=-DAY_S)

    async def set_monotonic_clock_on(self, server: ServerProcess) -> None:
        step(server, self.directory, monotonic_s=HOUR_S)

    async def set_monotonic_clock_back(self, server: ServerProcess) -> None:
        step(server, self.directory, monotonic_s=-HOUR_S)

    @property
    def _servers(self) -> list[ServerProcess]:
        return self.controllers.servers


class Fault(NamedTuple):
    """What happens, and what a hold clock may gain or lose by it, beside the time that goes by."""

    happen: Callable[[Scene, ServerProcess], Awaitable[None]]
    extra_ms: int = 0
    back_ms: int = 0


FAULTS = [
    Fault(Scene.kill),
    Fault(Scene.stop),
    Fault(Scene.pause),
    Fault(Scene.pause_shortly),
    Fault(Scene.restart_database),
    Fault(Scene.be_away_for_an_hour),
    Fault(Scene.set_wall_clock_on),
    Fault(Scene.set_wall_clock_back),
    Fault(Scene.set_monotonic_clock_on, extra_ms=1_000),
    # What it counted since its latest stamp, every 250 ms, or on a busy machine later.
    Fault(Scene.set_monotonic_clock_back, back_ms=1_000),
]


async def _run(scene: Scene, plan: list[tuple[Fault, float]]) -> None:
    load = scene.load
    await load.start()
    async with asyncio.TaskGroup() as tasks:
        watchers = [tasks.create_task(load.watch(stream)) for stream in STREAMS]
        await _run_under_load(scene, plan)
        await load.until_all_is_seen()
        for one in watchers:
            one.cancel()
    for stream in load.reports:
        await _check(load, stream, await _holding(scene))
    for client in await _holding(scene):
        stored = await _writers(client, "load/restarts")
        for writer, incarnation in load.incarnations.items():
            assert stored[writer]["incarnation"] == incarnation
    longest_s = 2 * LEASE_MS / 1_000 + 1 + scene.unheard_s + BUSY_S
    assert load.longest_silence_s() < longest_s
    assert load.longest_delay_s() < longest_s


async def _run_under_load(scene: Scene, plan: list[tuple[Fault, float]]) -> None:
    load = scene.load
    hold_clock = HoldClock(load, scene.controllers)
    async with asyncio.TaskGroup() as tasks:
        for writer in WRITERS:
            for stream in load.reports:
                tasks.create_task(load.write(stream, writer))
        for writer in WRITERS[:2]:
            tasks.create_task(load.register(writer))
        await load.until_all_go_on()
        await hold_clock.until_it_goes()
        held = await hold_clock.read()
        for fault, pause_s in plan:
            await asyncio.sleep(pause_s)
            unheard_s = -scene.unheard_s
            holder = await asyncio.to_thread(lambda: scene.controllers.holder)
            await fault.happen(scene, holder)
            await load.until_all_go_on()
            unheard_s += scene.unheard_s
            before, held = held, await hold_clock.read()
            check_not_restarted(before, held, back_ms=fault.back_ms)
            check_not_charged(before, held, unheard_s=unheard_s, extra_ms=fault.extra_ms)
        await hold_clock.until_it_goes()
        load.stopped = True


async def _holding(scene: Scene) -> list[httpx.AsyncClient]:
    """Return the client of the controller that holds the database."""
    holder = await asyncio.to_thread(lambda: scene.controllers.holder)
    return [one for one in scene.load.clients if str(one.base_url).rstrip("/") == holder.url]


async def _check(load: Load, stream: str, holding: list[httpx.AsyncClient]) -> None:
    """Nothing accepted is lost, and the marks are those that follow from it."""
    reports = load.reports[stream]
    silent = {SILENT: [Report(NOW, {}, 0)]} if stream == HELD else {}
    expected = list(enumerate(_expected_marks(reports | silent), start=1))
    for client in holding:
        marks = await _all_marks(client, stream)
        found = [(one["revision"], (one["lower"], one["upper"], one["cut"])) for one in marks]
        assert found == expected
        if stream in load.seen:
            assert {one["revision"]: one for one in marks} == {
                revision: seen.mark for revision, seen in load.seen[stream].items()
            }
            assert len(marks) > len(FAULTS)
        stored = await _writers(client, stream)
        for writer, many in reports.items():
            assert stored[writer]["time"] == many[-1].time


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


async def _run_on(
    all_of_them: Controllers, cluster: Cluster, directory: Path, seed: str
) -> None:
    # Its own, since the load draws as often as time allows.
    chance = random.Random(seed)
    faults = chance.sample(FAULTS, len(FAULTS))
    plan = [(one, chance.uniform(0.2, 1.0)) for one in faults]
    print(f"seed {seed}:", *(one.happen.__name__ for one in faults))  # noqa: T201
    async with AsyncExitStack() as stack:
        clients = [
            httpx.AsyncClient(base_url=one.url, timeout=PATIENCE_S)
            for one in all_of_them.servers
        ]
        for client in clients:
            await stack.enter_async_context(client)
        load = Load(random.Random(seed), clients)
        await _run(Scene(all_of_them, cluster, directory, load), plan)


def test_whatever_is_lost_no_report_is_and_every_mark_is_what_it_should_be(
    own_cluster: Cluster, tmp_path: Path, pytestconfig: pytest.Config, effort: Effort
) -> None:
    """A seed, which is printed, decides about the order of the faults and when each happens.

    The first is always the same one, unless `--hypothesis-seed=…` gives another.
    """
    first = pytestconfig.getoption("--hypothesis-seed") or SEED
    runs = effort.times("orders of ten faults", short=1, long=6)
    for seed in [first, *(f"{first}-{number}" for number in range(1, runs))]:
        directory = tmp_path / seed
        directory.mkdir()
        _run_in(directory, own_cluster, seed)


def _run_in(directory: Path, cluster: Cluster, seed: str) -> None:
    with controllers(
        cluster,
        directory,
        3,
        launcher=launcher(directory),
        lease_ms=LEASE_MS,
        mark_thinning="",
    ) as all_of_them:
        url = all_of_them.servers[0].url
        create(url, *STREAMS, segments=2, aggregation_timeout_ms=None)
        create(url, HELD, segments=2, aggregation_timeout_ms=TIMEOUT_MS)
        create(url, "load/restarts", aggregation_timeout_ms=None)
        asyncio.run(_run_on(all_of_them, cluster, directory, seed))
