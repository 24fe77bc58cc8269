"""``kill -9`` under load: what was acknowledged is what is stored, and nothing goes back."""

import asyncio
import multiprocessing
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from multiprocessing.context import ForkServerProcess
from typing import Any

import httpx
from pyarrow import ipc

from controller import ServeSettings, serve
from tests.server import free_port
from tidegauge.errors import WriterFencedError

POINTS = 50
WRITERS = [f"w{number}" for number in range(8)]
STREAM = "/v1/streams/crash/one"
LOST = (httpx.TransportError, httpx.HTTPStatusError)


@dataclass
class Acknowledged:
    """What the server said it had stored."""

    incarnations: dict[str, int] = field(default_factory=dict)
    times: dict[tuple[str, int], int] = field(default_factory=dict)
    """By writer and incarnation."""
    tried: int = 0
    """The greatest time that was sent: it may be stored although the answer was lost."""
    events: dict[int, str] = field(default_factory=dict)
    marks: dict[int, dict[str, Any]] = field(default_factory=dict)


class Nursery:
    """Forks servers from a process that imported everything once, so that starts are quick."""

    def __init__(self, database_url: str) -> None:
        self._context = multiprocessing.get_context("forkserver")
        # pyarrow loads pandas at the first append, if it is installed.
        self._context.set_forkserver_preload(["controller", "pandas"])
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._settings = ServeSettings(port=port, database_url=database_url, log_level="error")
        self.process: ForkServerProcess

    def start(self) -> None:
        self.process = self._context.Process(target=serve, args=(self._settings,))
        self.process.start()

    def kill(self) -> None:
        self.process.kill()
        self.process.join()


async def _write(client: httpx.AsyncClient, name: str, known: Acknowledged) -> None:
    """Append and report for ever, each time a little later; now and then register first."""
    answer = (await client.get(STREAM)).raise_for_status()
    noted = max(answer.json()["watermark"] or 0, known.tried)
    if name not in known.incarnations or random.random() < 0.2:
        await _register(client, name, known)
    while True:
        noted += random.randrange(1, 50)
        event = {"key": name, "event_time": noted, "value": f"{name}@{noted}"}
        appended = await client.post(
            f"{STREAM}/events", json=event, headers={"content-type": "application/x-ndjson"}
        )
        offset = appended.raise_for_status().json()["position"]["0"]
        known.events[offset - 1] = str(event["value"])
        await _note(client, name, known, time_ms=noted, offset=offset)


async def _register(client: httpx.AsyncClient, name: str, known: Acknowledged) -> None:
    answer = await client.post(f"{STREAM}/writers/{name}/register")
    known.incarnations[name] = answer.raise_for_status().json()["incarnation"]


async def _note(
    client: httpx.AsyncClient, name: str, known: Acknowledged, *, time_ms: int, offset: int
) -> None:
    incarnation = known.incarnations[name]
    known.tried = max(known.tried, time_ms)
    report = {"time": time_ms, "position": {"0": offset}, "incarnation": incarnation}
    answer = await client.post(f"{STREAM}/writers/{name}/note-time", json=report)
    if answer.status_code == WriterFencedError.status:
        assert answer.json()["code"] == WriterFencedError.code
        await _register(client, name, known)  # an answer to a registration was lost
    else:
        answer.raise_for_status()
        known.times[name, incarnation] = time_ms


async def _watch(client: httpx.AsyncClient, known: Acknowledged) -> None:
    """See marks as a reader does."""
    while True:
        after = max(known.marks, default=0)
        answer = await client.get(f"{STREAM}/marks", params={"after": after, "wait_ms": 10_000})
        for mark in answer.raise_for_status().json()["marks"]:
            known.marks[mark["revision"]] = mark


@asynccontextmanager
async def _serving(nursery: Nursery) -> AsyncIterator[httpx.AsyncClient]:
    nursery.start()
    try:
        async with httpx.AsyncClient(base_url=nursery.url, timeout=20) as client:
            await _until(partial(_answers, client))
            yield client
    finally:
        nursery.kill()


async def _answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/readyz")).is_success
    except httpx.TransportError:
        return False


async def _crash_under_load(
    client: httpx.AsyncClient, nursery: Nursery, known: Acknowledged, delay: float
) -> None:
    work = [_write(client, name, known) for name in WRITERS] + [_watch(client, known)]
    tasks = [asyncio.create_task(one) for one in work]
    await asyncio.sleep(delay)
    nursery.kill()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, LOST) for one in outcomes), outcomes


async def _check(client: httpx.AsyncClient, known: Acknowledged) -> None:
    """Compare what was acknowledged with what the next process knows."""
    writers = (await client.get(f"{STREAM}/writers")).json()["writers"]
    stored = {one["writer"]: one for one in writers}
    for name, incarnation in known.incarnations.items():
        assert stored[name]["incarnation"] >= incarnation
        assert stored[name]["state"] in {"joining", "active", "behind"}
    for (name, incarnation), noted in known.times.items():
        if stored[name]["incarnation"] == incarnation:
            assert stored[name]["time"] >= noted
    tail = (await client.get(f"{STREAM}/tail")).json()["tail"]["0"]
    assert tail > max(known.events, default=-1)
    await _check_marks(client, known)
    if all(one["time"] is not None for one in writers):
        await _wait_for_watermark(client, min((one["time"] for one in writers), default=None))


async def _wait_for_watermark(client: httpx.AsyncClient, least: int | None) -> None:
    """Every stored report counts again, without anybody repeating it."""

    async def has_risen() -> bool:
        return bool((await client.get(STREAM)).json()["watermark"] == least)

    await _until(has_risen)


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + 10
    while not await condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        await asyncio.sleep(0.01)


async def _check_marks(client: httpx.AsyncClient, known: Acknowledged) -> None:
    marks: list[dict[str, Any]] = []
    while page := await _marks_after(client, len(marks)):
        marks += page
    assert [one["revision"] for one in marks] == list(range(1, len(marks) + 1))
    for before, after in pairwise(marks):
        assert before["lower"] < after["lower"]
        assert before["upper"] <= after["upper"]
        assert before["cut"]["0"] <= after["cut"]["0"]
    for revision, mark in known.marks.items():
        assert marks[revision - 1] == mark


async def _marks_after(client: httpx.AsyncClient, revision: int) -> list[dict[str, Any]]:
    answer = await client.get(f"{STREAM}/marks", params={"after": revision, "limit": 1_000})
    marks: list[dict[str, Any]] = answer.raise_for_status().json()["marks"]
    return marks


async def _run(database_url: str, points: int, chance: random.Random) -> None:
    nursery, known = Nursery(database_url), Acknowledged()
    settings = {"segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    for point in range(points + 1):
        async with _serving(nursery) as client:
            if point == 0:
                (await client.put(STREAM, json=settings)).raise_for_status()
            await _check(client, known)
            if point == points:
                await _check_events(client, known, points)
                return
            await _crash_under_load(client, nursery, known, chance.uniform(0.02, 0.5))


async def _check_events(client: httpx.AsyncClient, known: Acknowledged, points: int) -> None:
    tail = (await client.get(f"{STREAM}/tail")).json()["tail"]["0"]
    stored = await _read_events(client, tail)
    assert len(stored) == tail
    assert {offset: stored[offset] for offset in known.events} == known.events
    assert len(known.events) > points
    assert len(known.marks) > points // 3


async def _read_events(client: httpx.AsyncClient, end: int) -> dict[int, str]:
    stored: list[str] = []
    while len(stored) < end:
        answer = await client.get(f"{STREAM}/segments/0/events", params={"start": len(stored)})
        assert answer.headers["tidegauge-first-offset"] == str(len(stored))
        table = ipc.open_stream(answer.raise_for_status().content).read_all()
        stored += [value.decode() for value in table.column("value").to_pylist()]
    return dict(enumerate(stored))


def test_what_was_acknowledged_is_stored_whenever_the_server_is_killed(
    database_url: str, thoroughness: int
) -> None:
    points = POINTS * thoroughness // 100
    asyncio.run(_run(database_url, points, random.Random(8470)))
