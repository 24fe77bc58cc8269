"""When marks are made: not before their interval is over, then without being asked for, and at once after a start."""

import time
from collections.abc import AsyncIterator

import httpx
import pytest

from controller.configuration import ServeSettings
from controller.http.app import ControllerApp
from controller.streams import stream as streams
from controller.streams.stream import StreamState
from tests.patience import until
from tests.service.api import Open
from tests.service.in_process import in_process
from tidegauge.names import StreamName

NOON = 1_704_110_400_000
DAY_MS = 86_400_000
STREAM = "/v1/streams/tests/one"


@pytest.fixture
async def served(database_url: str) -> AsyncIterator[tuple[ControllerApp, httpx.AsyncClient]]:
    """A new service, and a client of it."""
    async with in_process(ServeSettings(database_url=database_url)) as app_and_client:
        yield app_and_client


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


@pytest.mark.anyio
async def test_a_clock_that_runs_out_inside_the_interval_of_marks_waits_idly_for_its_end(
    served: tuple[ControllerApp, httpx.AsyncClient],
) -> None:
    app, client = served
    batches = 0

    def count(_size: int, _seconds: float) -> None:
        nonlocal batches
        batches += 1

    state = await _let_slow_hold(app, client)
    await _change(client, mark_interval_ms=2_000)
    app.parts.sequencer.on_batch = count
    await until(lambda: state.watermark == NOON + 5)
    assert batches < 30


@pytest.mark.anyio
async def test_a_shorter_interval_of_marks_holds_for_clocks_that_run_already(
    served: tuple[ControllerApp, httpx.AsyncClient],
) -> None:
    app, client = served
    state = await _let_slow_hold(app, client)
    await _change(client, mark_interval_ms=DAY_MS)
    await _change(client, mark_interval_ms=0)
    await until(lambda: state.watermark == NOON + 5)


def test_a_machine_that_started_a_moment_ago_makes_marks_at_once(
    open_shop: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = time.monotonic()
    monkeypatch.setattr(streams, "monotonic", lambda: time.monotonic() - started)
    shop = open_shop(mark_interval_ms=DAY_MS)
    assert shop.note("w", 5, 1)["watermark"] == 5
