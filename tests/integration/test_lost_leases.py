"""A lease that is lost is told once, however many streams were held under it."""

import asyncio
import signal
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from tests.integration.controllers import NOW, controllers, create
from tests.integration.in_process import in_process
from tests.patience import wait_until
from tests.postgres import Cluster

pytestmark = pytest.mark.only_on(
    "postgresql", "only controllers that share a database have leases"
)

STREAMS = [f"tests/s{number:02}" for number in range(24)]
INTERVAL_MS = 500


def _note(url: str, at: int) -> None:
    reports = [
        {"stream": stream, "writer": "w", "time": NOW + at, "position": {"0": at}}
        for stream in STREAMS
    ]
    answer = httpx.post(f"{url}/v1/note-times", json={"reports": reports}, timeout=20)
    assert {one["status"] for one in answer.json()["results"]} == {200}


def test_a_lost_lease_is_one_warning_whatever_was_under_way(
    cluster: Cluster, tmp_path: Path
) -> None:
    with controllers(cluster, tmp_path, 1) as running:
        (server,) = running.servers
        create(server.url, *STREAMS, mark_interval_ms=INTERVAL_MS)
        _note(server.url, 1)
        _note(server.url, 2)
        server.process.send_signal(signal.SIGSTOP)
        due = time.monotonic() + INTERVAL_MS / 1_000
        running.query("WITH gone AS (DELETE FROM controllers RETURNING id) SELECT * FROM gone")
        wait_until(lambda: time.monotonic() > due)
        server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: server.log.read_text().count("] joined ") == 2)
        log = server.log.read_text()
        assert log.count("the lease is lost") == 1
        assert "work in the background failed" not in log
        assert "Traceback" not in log
        assert "[error" not in log


def test_nothing_is_kept_of_the_changelog_of_a_stream_that_moved_away(cluster: Cluster) -> None:
    async def scene() -> None:
        settings = ServeSettings(database_url=cluster.database())
        async with in_process(settings, address="http://127.0.0.1:1") as (app, client):
            wanted = {"log": "external", "segments": 1}
            (await client.put("/v1/streams/tests/one", json=wanted)).raise_for_status()
            report = {"time": NOW, "position": {"0": 1}}
            path = "/v1/streams/tests/one/writers/w/note-time"
            (await client.post(path, json=report)).raise_for_status()
            registry, logs = app.parts.registry, app.parts.registry.change_store
            (state,) = registry
            kept: dict[int, Any] = logs._logs  # type: ignore[attr-defined]
            assert list(kept) == [state.identity.key]
            registry.move_away(state)
            assert kept == {}

    asyncio.run(scene())
