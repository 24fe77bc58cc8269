"""Listening time goes along with a stream, whatever happens to controllers and their clocks."""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from controller import factory
from controller.clocks import ListeningClock, boot_s
from controller.cluster import membership
from controller.configuration import ServeSettings
from controller.http.app import ControllerApp, create_app
from tests.patience import PATIENCE_S, until
from tests.postgres import Cluster

NOW = 1_700_000_000_000
STREAM = "/v1/streams/tests/one"
TIMEOUT_MS = 120_000
"""More than twice as long as others are silent: their silence counts for half of it at most."""
MINUTES_MS = 600_000


class Machine:
    """A monotonic clock that is moved by hand; controllers on it come and go."""

    def __init__(self, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 5_000
        self._settings = ServeSettings(database_url=database_url, lease_ms=1_500)
        clock = partial(ListeningClock, monotonic_ms=lambda: self.now_ms)
        monkeypatch.setattr(factory, "ListeningClock", clock)

    async def start(self, address: str) -> ControllerApp:
        app = create_app(self._settings, address=address)
        await app.process.start()
        return app

    async def listen(self, app: ControllerApp, milliseconds: int) -> None:
        """Let time pass on a machine that runs: stamps are made as ever."""
        for _ in range(0, milliseconds, 250):
            self.step(app, 250)
        stored = partial(_stored, app)
        while await stored() < app.parts.clocks.listening.now_ms():  # noqa: ASYNC110 (a row)
            await asyncio.sleep(0.01)

    def step(self, app: ControllerApp, milliseconds: int) -> None:
        """Let time pass from one stamp to the next.

        The first makes the clock go: on a busy machine the lease may have run out meanwhile.
        """
        app.parts.clocks.listening.stamp()
        self.now_ms += milliseconds
        app.parts.clocks.listening.stamp()

    @staticmethod
    async def stop(app: ControllerApp) -> None:
        """End, and give everything back."""
        await app.process.close()
        await app.aclose()

    @staticmethod
    async def die(app: ControllerApp) -> None:
        """End without giving anything back."""
        for task in app.parts.health.tasks:
            task.cancel()
        await asyncio.gather(*app.parts.health.tasks, return_exceptions=True)
        app.parts.database.close()
        await app.aclose()


@pytest.fixture
def machine(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(cluster.database(), monkeypatch)


async def _stored(app: ControllerApp) -> int:
    def read(connection: Any) -> int:
        query = "SELECT listening_ms FROM controllers WHERE id = %s"
        found: int = connection.exec_driver_sql(
            query, (app.parts.ownership.lease.controller,)
        ).scalar_one()
        return found

    return await app.parts.database.read(read)


async def _post(app: ControllerApp, writer: str, time: int) -> None:
    async with _client(app) as client:
        body = {"time": NOW + time, "position": {}}
        answer = await client.post(f"{STREAM}/writers/{writer}/note-time", json=body)
        answer.raise_for_status()


async def _let_slow_hold(machine: Machine, app: ControllerApp) -> None:
    """Let a writer hold another one up for 30 s."""
    async with _client(app) as client:
        wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0}
        settings = wanted | {"aggregation_timeout_ms": TIMEOUT_MS}
        (await client.put(STREAM, json=settings)).raise_for_status()
    await _post(app, "slow", 10)
    await _post(app, "quick", 50_000)
    await machine.listen(app, 30_000)


async def _holding_ms(app: ControllerApp) -> int:
    async with _client(app) as client:
        answer = await client.get(f"{STREAM}/watermark")
        (holder,) = answer.raise_for_status().json()["explanation"]["holders"]
    assert (holder["writer"], holder["state"]) == ("slow", "behind")
    held: int = holder["silent_for_ms"]
    return held


def _client(app: ControllerApp) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app)
    return httpx.AsyncClient(transport=transport, base_url="http://tests", timeout=30)


def test_ten_minutes_without_a_controller_are_charged_to_nobody_and_restart_no_clock(
    machine: Machine,
) -> None:
    async def scene() -> None:
        first = await machine.start("http://127.0.0.1:1")
        await _let_slow_hold(machine, first)
        assert await _holding_ms(first) == 30_000
        await machine.die(first)
        machine.now_ms += MINUTES_MS
        second = await machine.start("http://127.0.0.1:2")
        assert await _holding_ms(second) == 30_000
        machine.step(second, MINUTES_MS)
        assert await _holding_ms(second) == 31_000
        await machine.listen(second, 20_000)
        assert await _holding_ms(second) == 51_000
        await machine.stop(second)
        machine.now_ms -= MINUTES_MS
        third = await machine.start("http://127.0.0.1:3")
        assert await _holding_ms(third) == 51_000
        await _post(third, "quick", 50_000)
        await machine.listen(third, 69_000 - 10_000)
        await _post(third, "quick", 50_000)
        await machine.listen(third, 10_000)
        await _until_expired(third)
        await machine.stop(third)

    asyncio.run(scene())


async def _until_expired(app: ControllerApp) -> None:
    async with _client(app) as client, asyncio.timeout(PATIENCE_S):
        while True:
            answer = await client.get(f"{STREAM}/writers", params={"state": "expired"})
            if [one["writer"] for one in answer.json()["writers"]] == ["slow"]:
                return
            await asyncio.sleep(0.02)


def test_time_in_which_the_database_is_away_is_charged_to_nobody(
    own_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine(own_cluster.database(), monkeypatch)

    async def scene() -> None:
        app = await machine.start("http://a")
        try:
            await asyncio.to_thread(own_cluster.stop)
            holding, listening = app.parts.ownership, app.parts.clocks.listening
            await until(lambda: not holding.lease.is_certain)
            before = listening.now_ms()
            for _ in range(5):
                await _let_pass(machine, listening, 900)
            assert listening.now_ms() <= before + 900
            await asyncio.to_thread(own_cluster.start)
            await until(lambda: holding.lease.is_certain)
            stood = listening.now_ms()
            await machine.listen(app, 500)
            assert listening.now_ms() >= stood + 250
        finally:
            await machine.stop(app)

    asyncio.run(scene())


NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON changelog EXECUTE FUNCTION no_room();
"""


def test_time_in_which_the_database_stores_leases_but_no_reports_is_charged_to_nobody(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cluster.database()
    machine = Machine(url, monkeypatch)

    async def scene() -> None:
        app = await machine.start("http://127.0.0.1:1")
        listening = app.parts.clocks.listening
        async with _client(app) as client:
            wanted = {"log": "external", "segments": 1}
            (await client.put(STREAM, json=wanted)).raise_for_status()
            report = {"time": NOW, "position": {}}
            with cluster.connect(cluster.name_of(url)) as connection:
                connection.execute(NO_ROOM)
                answer = await client.post(f"{STREAM}/writers/w/note-time", json=report)
                assert answer.status_code == 503
                before = listening.now_ms()
                for _ in range(5):
                    await _let_pass(machine, listening, 900)
                await until(lambda: app.parts.ownership.lease.is_certain)
                assert listening.now_ms() == before
                connection.execute("DROP TRIGGER no_room ON changelog")
            while listening.now_ms() < before + 500:
                await _let_pass(machine, listening, 250)
            await _post(app, "w", 0)
        await machine.stop(app)

    asyncio.run(scene())


async def _let_pass(machine: Machine, listening: ListeningClock, milliseconds: int) -> None:
    """Let time pass until the controller stamps it."""
    machine.now_ms += milliseconds
    await until(lambda: listening.stamp_age_ms == 0)


def test_what_taking_a_stream_over_takes_is_charged_to_nobody(
    machine: Machine,
) -> None:
    async def scene() -> None:
        first = await machine.start("http://127.0.0.1:1")
        await _let_slow_hold(machine, first)
        second = await machine.start("http://127.0.0.1:2")
        _read_back_slowly(second, machine)
        await machine.die(first)
        assert await _holding_ms(second) == 30_000
        await machine.listen(second, 5_000)
        await machine.stop(second)
        third = await machine.start("http://127.0.0.1:3")
        assert await _holding_ms(third) == 35_000
        await machine.stop(third)

    asyncio.run(scene())


def _read_back_slowly(app: ControllerApp, machine: Machine) -> None:
    """Let time pass between taking streams and holding them."""
    holding: Any = app.parts.ownership
    read_back = holding._read_back

    async def slow(me: int) -> None:
        if holding._taken:
            await machine.listen(app, 20_000)
        await read_back(me)

    holding._read_back = slow


def test_a_controller_that_was_suspended_trusts_no_lease_of_before_and_charges_nobody(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s = 0.0
    monkeypatch.setattr(membership, "boot_s", lambda: boot_s() + slept_s)

    async def scene() -> None:
        nonlocal slept_s
        app = await machine.start("http://127.0.0.1:1")
        holding, listening = app.parts.ownership, app.parts.clocks.listening
        await machine.listen(app, 500)
        await until(lambda: holding.lease.is_certain)
        before = listening.now_ms()
        slept_s += 3_600
        assert not holding.lease.is_certain
        await until(lambda: holding.lease.is_certain)
        assert listening.now_ms() == before
        await machine.stop(app)

    asyncio.run(scene())
