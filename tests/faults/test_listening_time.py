"""Time in which PostgreSQL stores no reports, or a machine was suspended, is charged to nobody."""

import asyncio
from functools import partial

import pytest

from controller import factory
from controller.clocks import ListeningClock, boot_s
from controller.cluster import lease
from controller.configuration import ServeSettings
from tests.patience import until
from tests.postgres import Cluster
from tests.service.in_process import in_process

NOW = 1_700_000_000_000
STREAM = "/v1/streams/tests/one"
NO_ROOM = """
CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON changelog EXECUTE FUNCTION no_room();
"""


class Machine:
    """A monotonic clock that is moved by hand."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 5_000
        clock = partial(ListeningClock, monotonic_ms=lambda: self.now_ms)
        monkeypatch.setattr(factory, "ListeningClock", clock)

    async def let_pass(self, listening: ListeningClock, milliseconds: int) -> None:
        """Let time pass until the controller stamps it."""
        self.now_ms += milliseconds
        await until(lambda: listening.stamp_age_ms == 0)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(monkeypatch)


def _settings(url: str) -> ServeSettings:
    return ServeSettings(database_url=url, lease_ms=1_500)


def test_time_in_which_the_database_stores_leases_but_no_reports_is_charged_to_nobody(
    cluster: Cluster, machine: Machine
) -> None:
    url = cluster.database()

    async def scene() -> None:
        async with in_process(_settings(url)) as (app, client):
            listening = app.parts.clocks.listening
            wanted = {"log": "external", "segments": 1}
            (await client.put(STREAM, json=wanted)).raise_for_status()
            report = {"time": NOW, "position": {}}
            path = f"{STREAM}/writers/w/note-time"
            with cluster.connect(cluster.name_of(url)) as connection:
                connection.execute(NO_ROOM)
                answer = await client.post(path, json=report)
                assert answer.status_code == 503
                before = listening.now_ms()
                for _ in range(5):
                    await machine.let_pass(listening, 900)
                await until(lambda: app.process.right.is_certain)
                assert listening.now_ms() == before
                connection.execute("DROP TRIGGER no_room ON changelog")
            while listening.now_ms() < before + 500:
                await machine.let_pass(listening, 250)
            (await client.post(path, json=report)).raise_for_status()

    asyncio.run(scene())


def test_a_controller_that_was_suspended_trusts_no_lease_of_before_and_charges_nobody(
    cluster: Cluster, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept_s = 0.0
    monkeypatch.setattr(lease, "boot_s", lambda: boot_s() + slept_s)

    async def scene() -> None:
        nonlocal slept_s
        settings = _settings(cluster.database())
        async with in_process(settings) as (app, _):
            right, listening = app.process.right, app.parts.clocks.listening
            await machine.let_pass(listening, 250)
            await until(lambda: right.is_certain)
            before = listening.now_ms()
            slept_s += 3_600
            assert not right.is_certain
            await until(lambda: right.is_certain)
            assert listening.now_ms() == before

    asyncio.run(scene())
