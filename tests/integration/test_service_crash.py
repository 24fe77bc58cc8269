"""``kill -9`` under load: what was acknowledged is what is stored, and nothing goes back."""

import asyncio
import random
from collections.abc import AsyncIterator, Sized
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import pytest
from pyarrow import ipc

from tests.conftest import NewServer
from tests.effort import Effort
from tests.patience import PATIENCE_S, until
from tests.server import ServerProcess
from tidegauge.errors import WriterFencedError

pytestmark = pytest.mark.about_sql

WRITERS = [f"w{number}" for number in range(8)]
STREAM = "/v1/streams/crash/one"
LOST = (httpx.TransportError, httpx.HTTPStatusError)


@dataclass
class Acknowledged:
    """What the server said it had stored."""

    incarnations: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    """Where that incarnation was to go on; 0 if it was told nothing."""
    times: dict[tuple[str, int], int] = field(default_factory=dict)
    """By writer and incarnation."""
    tried: int = 0
    """The greatest time that was sent: it may be stored although the answer was lost."""
    events: dict[int, str] = field(default_factory=dict)
    marks: dict[int, dict[str, Any]] = field(default_factory=dict)


async def _write(client: httpx.AsyncClient, name: str, known: Acknowledged) -> None:
    """Append and report for ever, each time a little later; now and then register first.

    What is reported is above the time that the registration told, so each writer holds the
    watermark, from then on, below all that it reports.
    """
    answer = (await client.get(STREAM)).raise_for_status()
    noted = max(answer.json()["watermark"] or 0, known.tried)
    if name not in known.incarnations or random.random() < 0.2:
        await _register(client, name, known)
    while True:
        noted = max(noted, known.told[name]) + random.randrange(1, 50)
        event = {"key": name, "event_time": noted, "value": f"{name}@{noted}"}
        appended = await client.post(
            f"{STREAM}/events", json=event, headers={"content-type": "application/x-ndjson"}
        )
        offset = appended.raise_for_status().json()["position"]["0"]
        known.events[offset - 1] = str(event["value"])
        await _note(client, name, known, time_ms=noted, offset=offset)


async def _register(client: httpx.AsyncClient, name: str, known: Acknowledged) -> None:
    answer = await client.post(f"{STREAM}/writers/{name}/register")
    registered = answer.raise_for_status().json()
    known.incarnations[name] = registered["incarnation"]
    known.told[name] = registered["time"] or 0


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
async def _serving(server: ServerProcess) -> AsyncIterator[httpx.AsyncClient]:
    await asyncio.to_thread(server.start)
    try:
        async with httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_S) as client:
            yield client
    finally:
        server.kill()


async def _crash_under_load(
    client: httpx.AsyncClient, server: ServerProcess, known: Acknowledged, chance: random.Random
) -> None:
    """Kill it a moment after some reports were accepted, or some marks were seen."""
    news: Sized = known.events if chance.random() < 0.5 else known.marks
    enough = len(news) + chance.choice([1, 1, 2, 5, 20])
    work = [_write(client, name, known) for name in WRITERS] + [_watch(client, known)]
    tasks = [asyncio.create_task(one) for one in work]
    await until(lambda: len(news) >= enough or any(one.done() for one in tasks))
    await asyncio.sleep(chance.uniform(0, 0.02))
    server.kill()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(one, LOST) for one in outcomes), outcomes
    assert len(news) >= enough


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
    await _check_watermark(client, known, stored)


async def _check_watermark(
    client: httpx.AsyncClient, known: Acknowledged, stored: dict[str, Any]
) -> None:
    """Every stored report counts again, without anybody repeating it, and holds again.

    Who has reported nothing in its incarnation stands where its registration said.
    """
    for name, one in stored.items():
        if one["time"] is None and known.incarnations.get(name) == one["incarnation"]:
            assert (one["stand"] or 0) == known.told[name]
    stands = [one["stand"] for one in stored.values()]
    if stands and None not in stands:
        await _wait_for_watermark(client, min(stands))
        assert await _watermark(client) == min(stands)


async def _wait_for_watermark(client: httpx.AsyncClient, least: int) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while await _watermark(client) < least:  # noqa: ASYNC110 (a process knows it)
            await asyncio.sleep(0.01)


async def _watermark(client: httpx.AsyncClient) -> int:
    return (await client.get(STREAM)).json()["watermark"] or 0


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


async def _run(server: ServerProcess, points: int, chance: random.Random) -> None:
    known = Acknowledged()
    settings = {"segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    for point in range(points + 1):
        async with _serving(server) as client:
            if point == 0:
                (await client.put(STREAM, json=settings)).raise_for_status()
            await _check(client, known)
            if point < points:
                await _crash_under_load(client, server, known, chance)
            else:
                await _check_events(client, known)


async def _check_events(client: httpx.AsyncClient, known: Acknowledged) -> None:
    tail = (await client.get(f"{STREAM}/tail")).json()["tail"]["0"]
    stored = await _read_events(client, tail)
    assert len(stored) == tail
    assert {offset: stored[offset] for offset in known.events} == known.events


async def _read_events(client: httpx.AsyncClient, end: int) -> dict[int, str]:
    stored: list[str] = []
    while len(stored) < end:
        answer = await client.get(f"{STREAM}/segments/0/events", params={"start": len(stored)})
        assert answer.headers["tidegauge-first-offset"] == str(len(stored))
        table = ipc.open_stream(answer.raise_for_status().content).read_all()
        assert table.num_rows > 0
        stored += [value.decode() for value in table.column("value").to_pylist()]
    return dict(enumerate(stored))


def test_what_was_acknowledged_is_stored_whenever_the_server_is_killed(
    new_server: NewServer, effort: Effort
) -> None:
    points = effort.times("kills", short=8, long=77)
    asyncio.run(_run(new_server(lease_ms=1_500), points, random.Random(8470)))
