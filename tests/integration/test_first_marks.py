"""When the first pass after a start runs."""

import asyncio
import time

import pytest

from controller.configuration import ServeSettings
from controller.streams import stream as streams
from tests.integration.in_process import in_process

DAY_MS = 86_400_000


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
