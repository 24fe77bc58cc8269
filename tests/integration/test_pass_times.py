"""When passes run: not before their interval is over, and then without being asked for."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp
from controller.streams.stream import StreamState
from tests.integration.in_process import in_process
from tests.patience import until
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


async def _let_slow_hold(
    app: ControllerApp, client: httpx.AsyncClient, **settings: int
) -> StreamState:
    """Let a writer hold another one up since the pass that made the first mark."""
    wanted = {"log": "external", "segments": 1, "min_writers": 2} | settings
    (await client.put(STREAM, json=wanted)).raise_for_status()
    for writer, time in (("slow", NOON), ("fast", NOON + 5)):
        report = {"time": time, "position": {}}
        answer = await client.post(f"{STREAM}/writers/{writer}/note-time", json=report)
        answer.raise_for_status()
    return app.service.registry.get(StreamName("tests", "one"))


def test_a_clock_that_runs_out_inside_the_interval_of_marks_waits_idly_for_its_end(
    play: Callable[[Scene], None],
) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        batches = 0

        def count(_size: int, _seconds: float) -> None:
            nonlocal batches
            batches += 1

        settings = {"aggregation_timeout_ms": 100, "mark_interval_ms": 1_000}
        state = await _let_slow_hold(app, client, **settings)
        app.service.sequencer.on_batch = count
        await until(lambda: state.watermark == NOON + 5)
        assert batches < 30

    play(scene)


def test_a_shorter_interval_of_marks_holds_for_clocks_that_run_already(
    play: Callable[[Scene], None],
) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        settings = {"aggregation_timeout_ms": 500, "mark_interval_ms": DAY_MS}
        state = await _let_slow_hold(app, client, **settings)
        changed = await client.patch(
            STREAM, json={"mark_interval_ms": 0}, headers={"if-match": "*"}
        )
        changed.raise_for_status()
        await until(lambda: state.watermark == NOON + 5)

    play(scene)
