"""What is gone leaves the controller's memory at once: no garbage collection is waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from weakref import ref

import httpx
import pytest
from sqlalchemy import Connection

from controller.background import retention
from controller.background.purging import Pace
from controller.background.retention import Sweeper
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp
from controller.streams.stream import StreamState
from tests.conftest import NewServer
from tests.garbage import count_of, uncollected
from tests.patience import until
from tests.server import Api
from tests.service.in_process import in_process
from tests.service.sessions import connected
from tidegauge.aggregation.writers import Writer
from tidegauge.names import StreamName

NOW = 1_700_000_000_000
DAY_MS = 86_400_000
NAME = StreamName("tests", "one")
PATH = f"/v1/streams/{NAME}"


class Controller:
    """A controller in this process, and a client of it."""

    def __init__(self, app: ControllerApp, client: httpx.AsyncClient) -> None:
        self.app, self.client = app, client

    @property
    def state(self) -> StreamState:
        return self.app.parts.registry.get(NAME)

    async def create(self, stream: str = NAME.stream, *, log: str = "external") -> None:
        wanted = {
            "log": log,
            "segments": 1,
            "mark_interval_ms": 0,
            "mark_resolution_ms": 0,
            "writer_retention_ms": DAY_MS,
        }
        (await self.client.put(f"/v1/streams/tests/{stream}", json=wanted)).raise_for_status()

    async def note(self, at: int, writer: str = "w") -> httpx.Response:
        report = {"time": NOW + at, "position": {"0": at}}
        return await self.client.post(f"{PATH}/writers/{writer}/note-time", json=report)


@asynccontextmanager
async def _running(database_url: str) -> AsyncIterator[Controller]:
    settings = ServeSettings(database_url=database_url)
    async with in_process(settings) as (app, client):
        yield Controller(app, client)


async def _reports(controller: Controller) -> None:
    for at, writer in ((1, "w"), (2, "v"), (3, "w"), (4, "w")):
        assert (await controller.note(at, writer)).is_success


async def _refused_report(controller: Controller) -> None:
    await _reports(controller)
    assert (await controller.note(1)).json()["code"] == "invalid_time"
    left = await controller.client.post(f"{PATH}/writers/nobody/leave", json={})
    assert left.json()["code"] == "unknown_writer"


async def _writer_to_forget_in_a_day(controller: Controller) -> None:
    await _reports(controller)
    left = await controller.client.post(f"{PATH}/writers/w/leave", json={})
    assert left.raise_for_status().json()["state"] == "left"


async def _long_poll(controller: Controller) -> None:
    query = {"after": 100, "wait_ms": 30_000}
    poll = asyncio.create_task(controller.client.get(f"{PATH}/marks", params=query))
    await until(lambda: len(controller.app.parts.waiting) == 1)
    poll.add_done_callback(asyncio.Future.result)


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    with uncollected():
        yield


Scene = Callable[[Controller], Coroutine[Any, Any, None]]


@pytest.mark.parametrize(
    "scene",
    [_reports, _refused_report, _writer_to_forget_in_a_day, _long_poll],
)
def test_a_stream_that_is_deleted_is_held_by_nothing(scene: Scene, database_url: str) -> None:
    async def run() -> None:
        async with _running(database_url) as controller:
            await controller.create()
            await scene(controller)
            gone = ref(controller.state)
            (await controller.client.delete(PATH)).raise_for_status()
            await until(lambda: gone() is None)
            await until(lambda: count_of(Writer) == 0)

    asyncio.run(run())


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

    async def run() -> None:
        async with _running(database_url) as controller:
            await controller.create()
            await _reports(controller)
            sweeper = Sweeper(
                controller.app.parts.registry,
                controller.app.parts.database,
                (),
                Pace(rest=0),
                monotonic_s=monotonic_s,
            )
            sweeping = asyncio.create_task(sweeper.run())
            await until(lambda: looks > 10)
            gone = ref(controller.state)
            (await controller.client.delete(PATH)).raise_for_status()
            await until(lambda: gone() is None)
            sweeping.cancel()

    asyncio.run(run())


def test_what_a_stream_was_before_it_is_read_back_leaves_memory(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with _running(database_url) as controller:
            await controller.create()
            await _reports(controller)
            database = controller.app.parts.database
            write = database.write

            async def fail(work: Callable[[Connection], None], *, rows: int) -> None:
                monkeypatch.setattr(database, "write", write)
                await write(partial(_fail_after, work), rows=rows)

            monkeypatch.setattr(database, "write", fail)
            await controller.note(5)
            assert (await controller.note(6)).is_success
            await until(lambda: count_of(Writer) == 2)

    asyncio.run(run())


def _fail_after(work: Callable[[Connection], None], connection: Connection) -> None:
    work(connection)
    connection.exec_driver_sql("SELECT nothing FROM nowhere")


@pytest.mark.only_on("postgresql", "nobody can lose a file")
def test_nothing_of_a_tenure_outlives_it(database_url: str) -> None:
    async def run() -> None:
        async with _running(database_url) as controller:
            await controller.create()
            await _writer_to_forget_in_a_day(controller)
            gone = ref(controller.state)
            with connected(database_url) as connection:
                connection.exec_driver_sql("DELETE FROM holder")
            await until(lambda: gone() is None)
            await until(lambda: controller.app.process.holds)
            assert count_of(Writer) == 2
            assert (await controller.note(5)).is_success

    asyncio.run(run())


def test_a_sealed_stream_keeps_no_reports_also_after_a_restart(new_server: NewServer) -> None:
    with new_server() as server:
        with Api(server.url) as api:
            api.create()
            api.note("slow", NOW, 1)
            for at in range(2, 20):
                api.note("fast", NOW + at, at)
            kept = 'tidegauge_stream_kept_reports{stream="tests/one"}'
            assert f"{kept} 18.0\n" in server.metrics()
            api.post("seal", position={"0": 20})
            assert f"{kept} 0.0\n" in server.metrics()
            writers = [_without_silence(one) for one in api.get("writers")["writers"]]
        server.stop()
        server.start()
        with Api(server.url) as api:
            assert f"{kept} 0.0\n" in server.metrics()
            found = [_without_silence(one) for one in api.get("writers")["writers"]]
            assert found == writers
            assert [(one["time"], one["position"]) for one in found] == [
                (NOW + 19, {"0": 19}),
                (NOW, {"0": 1}),
            ]


def _without_silence(writer: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in writer.items() if name != "silent_ms"}
