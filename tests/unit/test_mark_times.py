"""When marks are made: not before their interval is over, then without being asked for, and at once after a start."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp
from controller.streams import stream as streams
from controller.streams.stream import StreamState
from tests.patience import until
from tests.service.in_process import in_process
from tidegauge.names import StreamName

NOON = 1_704_110_400_000
DAY_MS = 86_400_000
STREAM = "/v1/streams/tests/one"
Scene = Callable[[ControllerApp, httpx.AsyncClient], Coroutine[Any, Any, None]]


@pytest.fixture
def play(database_url: str) -> Callable[[Scene], None]:
    """Run a scene with a new service and a client of it."""

    async def run(scene: Scene) -> None:
        async with in_process(ServeSettings(database_url=database_url)) as (app, client):
            await scene(app, client)

    return lambda scene: asyncio.run(run(scene))


async def _let_slow_hold(app: ControllerApp, client: httpx.AsyncClient) -> StreamState:
    """Let a writer hold another one up until its clock gets to its end without a report."""
    rules = {"min_writers": 2, "aggregation_timeout_ms": 1_000, "mark_interval_ms": 0}
    wanted = {"log": "external", "segments": 1} | rules
    (await client.put(STREAM, json=wanted)).raise_for_status()
    for writer, noted in (("slow", NOON), ("fast", NOON + 5)):
        await _note(client, writer, noted)
    state = app.parts.registry.get(StreamName("tests", "one"))
    while state.aggregator.inspect(state.now()).status("slow").expires_in_ms is None:
        await _note(client, "fast", NOON + 5)
    return state


async def _note(client: httpx.AsyncClient, writer: str, noted: int) -> None:
    report = {"time": noted, "position": {}}
    answer = await client.post(f"{STREAM}/writers/{writer}/note-time", json=report)
    answer.raise_for_status()


async def _change(client: httpx.AsyncClient, **settings: int) -> None:
    changed = await client.patch(STREAM, json=settings, headers={"if-match": "*"})
    changed.raise_for_status()


def test_a_clock_that_runs_out_inside_the_interval_of_marks_waits_idly_for_its_end(
    play: Callable[[Scene], None],
) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        batches = 0

        def count(_size: int, _seconds: float) -> None:
            nonlocal batches
            batches += 1

        state = await _let_slow_hold(app, client)
        await _change(client, mark_interval_ms=2_000)
        app.parts.sequencer.on_batch = count
        await until(lambda: state.watermark == NOON + 5)
        assert batches < 30

    play(scene)


def test_a_shorter_interval_of_marks_holds_for_clocks_that_run_already(
    play: Callable[[Scene], None],
) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        state = await _let_slow_hold(app, client)
        await _change(client, mark_interval_ms=DAY_MS)
        await _change(client, mark_interval_ms=0)
        await until(lambda: state.watermark == NOON + 5)

    play(scene)


def test_a_machine_that_started_a_moment_ago_makes_marks_at_once(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.monotonic()
    monkeypatch.setattr(streams, "monotonic", lambda: time.monotonic() - started)

    async def noted() -> int | None:
        async with in_process(ServeSettings(database_url=database_url)) as (_, client):
            settings = {"log": "external", "mark_interval_ms": DAY_MS}
            await client.put("/v1/streams/tests/one", json=settings)
            report = {"time": 5, "position": {"0": 1}}
            answer = await client.post("/v1/streams/tests/one/writers/w/note-time", json=report)
        watermark: int | None = answer.raise_for_status().json()["watermark"]
        return watermark

    assert asyncio.run(noted()) == 5
