"""What is gone leaves the controller's memory at once: no garbage collection is waited for."""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any, cast
from weakref import ref

import httpx
import pytest
from sqlalchemy import Connection

from controller.background import retention
from controller.background.purging import Pace
from controller.background.retention import Sweeper
from controller.cluster import Right
from controller.configuration import ServeSettings
from controller.database import Database
from controller.http.app import ControllerApp
from controller.streams.stream import StreamState
from tests.databases import open_database
from tests.garbage import count_of, uncollected
from tests.patience import until
from tests.service.in_process import in_process
from tidegauge.aggregation.writers import Writer
from tidegauge.names import StreamName

NOW = 1_700_000_000_000
PATH = "/v1/streams/tests/one"
WANTED = {
    "log": "external",
    "segments": 1,
    "mark_interval_ms": 0,
    "mark_resolution_ms": 0,
    "writer_retention_ms": 86_400_000,
}
Scene = Callable[[ControllerApp, httpx.AsyncClient], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    with uncollected():
        yield


def _play(scene: Scene, database_url: str, right: Right | None = None) -> None:
    """Play a scene of a controller and a client of it, which begins with a stream and reports."""

    async def run() -> None:
        settings = ServeSettings(database_url=database_url)
        async with in_process(settings, right=right) as (app, client):
            (await client.put(PATH, json=WANTED)).raise_for_status()
            for at, writer in ((1, "w"), (2, "v"), (3, "w"), (4, "w")):
                assert (await _note(client, at, writer)).is_success
            await scene(app, client)

    asyncio.run(run())


async def _note(client: httpx.AsyncClient, at: int, writer: str = "w") -> httpx.Response:
    report = {"time": NOW + at, "position": {"0": at}}
    return await client.post(f"{PATH}/writers/{writer}/note-time", json=report)


def _state(app: ControllerApp) -> StreamState:
    return app.parts.registry.get(StreamName("tests", "one"))


async def _nothing_more(_app: ControllerApp, _client: httpx.AsyncClient) -> None:
    pass


async def _refused_reports(_app: ControllerApp, client: httpx.AsyncClient) -> None:
    assert (await _note(client, 1)).json()["code"] == "invalid_time"
    left = await client.post(f"{PATH}/writers/nobody/leave", json={})
    assert left.json()["code"] == "unknown_writer"


async def _writer_to_forget_in_a_day(_app: ControllerApp, client: httpx.AsyncClient) -> None:
    left = await client.post(f"{PATH}/writers/w/leave", json={})
    assert left.raise_for_status().json()["state"] == "left"


async def _long_poll(app: ControllerApp, client: httpx.AsyncClient) -> None:
    query = {"after": 100, "wait_ms": 30_000}
    poll = asyncio.create_task(client.get(f"{PATH}/marks", params=query))
    await until(lambda: len(app.parts.waiting) == 1)
    poll.add_done_callback(asyncio.Future.result)


@pytest.mark.parametrize(
    "before", [_nothing_more, _refused_reports, _writer_to_forget_in_a_day, _long_poll]
)
def test_a_stream_that_is_deleted_is_held_by_nothing(before: Scene, database_url: str) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        await before(app, client)
        gone = ref(_state(app))
        (await client.delete(PATH)).raise_for_status()
        await until(lambda: gone() is None)
        await until(lambda: count_of(Writer) == 0)

    _play(scene, database_url)


def test_a_stream_that_was_swept_last_is_not_held_while_the_sweeper_rests(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0
    monkeypatch.setattr(retention, "_PERIOD_S", 0.001)

    def monotonic_s() -> float:
        nonlocal looks
        looks += 1
        if looks > 10:
            monkeypatch.setattr(retention, "_PERIOD_S", 3_600.0)
        return 0.0 if looks < 10 else -1.0

    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        parts = app.parts
        sweeper = Sweeper(
            parts.registry, parts.database, (), Pace(rest=0), monotonic_s=monotonic_s
        )
        sweeping = asyncio.create_task(sweeper.run())
        await until(lambda: looks > 10)
        gone = ref(_state(app))
        (await client.delete(PATH)).raise_for_status()
        await until(lambda: gone() is None)
        sweeping.cancel()

    _play(scene, database_url)


def test_what_a_stream_was_before_it_is_read_back_leaves_memory(database_url: str) -> None:
    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        database = app.parts.database
        write = database.write

        async def fail(work: Callable[[Connection], None], *, rows: int) -> None:
            database.write = write  # type: ignore[method-assign]
            await write(partial(_fail_behind, work), rows=rows)

        database.write = fail  # type: ignore[method-assign]
        assert (await _note(client, 5)).status_code == 503
        assert (await _note(client, 6)).is_success
        await until(lambda: count_of(Writer) == 2)

    _play(scene, database_url)


def _fail_behind(work: Callable[[Connection], None], connection: Connection) -> None:
    work(connection)
    connection.exec_driver_sql("SELECT nothing FROM nowhere")


class Losable:
    """A right that is lost once a test says so, and had again at once."""

    holder = ""
    is_certain = True

    def __init__(self, database_url: str) -> None:
        self.name = self._url = database_url
        self.lost = asyncio.Event()

    async def acquire(self) -> None:
        self.lost.clear()

    async def keep(self) -> None:
        await self.lost.wait()

    async def open(self) -> Database:
        return open_database(self._url)

    async def leave(self) -> None:
        pass

    def close(self) -> None:
        pass


def test_nothing_of_a_tenure_outlives_it(database_url: str) -> None:
    right = Losable(database_url)

    async def scene(app: ControllerApp, client: httpx.AsyncClient) -> None:
        await _writer_to_forget_in_a_day(app, client)
        gone = ref(_state(app))
        right.lost.set()
        await until(lambda: gone() is None)
        await until(lambda: app.process.holds)
        assert count_of(Writer) == 2
        assert (await _note(client, 5)).is_success

    _play(scene, database_url, cast("Right", right))
