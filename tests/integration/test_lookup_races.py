"""Lookups among marks, while newer ones are made."""

import asyncio
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from tests.integration.in_process import in_process
from tests.postgres import Cluster

ONE = "/v1/streams/tests/one"
NOW = 1_700_000_000_000


async def _note(client: httpx.AsyncClient, time: int, position: dict[str, int]) -> None:
    report = {"time": time, "position": position}
    answer = await client.post(f"{ONE}/writers/w/note-time", json=report)
    assert answer.is_success, answer.text


def test_a_position_is_looked_up_while_a_partition_is_added(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        settings = ServeSettings(database_url=cluster.database())
        async with in_process(settings, address="http://127.0.0.1:1") as (app, client):
            wanted = {
                "log": "external",
                "segments": 1,
                "max_segments": 2,
                "mark_interval_ms": 0,
            }
            (await client.put(ONE, json=wanted)).raise_for_status()
            await _note(client, NOW, {"0": 1})
            read = app.service.database.read

            async def read_later(*given: Any, **more: Any) -> Any:
                monkeypatch.setattr(app.service.database, "read", read)
                await _note(client, NOW + 1_000, {"0": 1, "1": 1})
                return await read(*given, **more)

            monkeypatch.setattr(app.service.database, "read", read_later)
            found = await client.get(f"{ONE}/marks/at", params={"position": "0:1"})
            assert found.raise_for_status().json()["passed"]["revision"] == 1

    asyncio.run(scene())
