"""What happens between the steps of a read, an append, or work in the background."""

import asyncio
from functools import partial
from typing import Any

import httpx
import pytest

from controller.background.maintenance import Maintenance
from controller.configuration import ServeSettings
from controller.log.compaction import Compactor
from controller.streams import lifecycle, reading
from tests.service.in_process import in_process
from tests.service.log_api import numbered
from tests.service.log_service import LogService, run_with, stored_events
from tidegauge.errors import UnavailableError, UnknownStreamError

NOW = 1_700_000_000_000
ONE = "/v1/streams/tests/one"


@pytest.fixture
def one_chunk_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PAGE_BYTES", 1)


async def _with_chunks(log: LogService, count: int) -> None:
    await log.create(segments=1)
    await log.register("w")
    for sequence in range(1, count + 1):
        await log.append("w", 1, 0, sequence, numbered(3 * sequence - 3, 3))


@pytest.mark.usefixtures("one_chunk_pages")
def test_a_read_goes_on_where_it_was_when_chunks_are_merged_meanwhile(
    database_url: str,
) -> None:
    async def work(log: LogService) -> None:
        await _with_chunks(log, 20)
        first, body = await log.open_read(0, 4)
        parts = [await anext(body), await anext(body), await anext(body)]
        await Compactor(log.parts.database).compact(log.state.identity.key, {0: 60})
        assert (await log.read(0, 59))[0] == 0
        parts += [part async for part in body]
        assert first == 3
        assert stored_events(parts) == numbered(3, 57)

    run_with(database_url, work)


@pytest.mark.usefixtures("one_chunk_pages")
def test_a_read_of_a_deleted_stream_fails_instead_of_ending_early(database_url: str) -> None:
    async def work(log: LogService) -> None:
        await _with_chunks(log, 3)
        state = log.state
        _, body = await log.open_read(0)
        await anext(body)
        await log.parts.sequencer.submit(partial(lifecycle.delete_stream, state=state))
        with pytest.raises(UnknownStreamError):
            [part async for part in body]

    run_with(database_url, work)


def test_an_idempotency_key_of_a_failed_transaction_answers_nobody(database_url: str) -> None:
    some = numbered(0, 2)

    async def fail_and_repeat(log: LogService) -> None:
        await log.create(segments=1)
        log.fail_next_write()
        racing = [log.append_by_key(some, "one") for _ in range(3)]
        answers = await asyncio.gather(*racing, return_exceptions=True)
        assert {type(answer) for answer in answers} <= {UnavailableError, dict}
        assert UnavailableError in {type(answer) for answer in answers}
        assert await log.append_by_key(some, "one") == {0: 2}
        assert (await log.read(0))[1] == some

    async def repeat_later(log: LogService) -> None:
        assert await log.append_by_key(some, "one") == {0: 2}
        assert (await log.read(0))[1] == some

    run_with(database_url, fail_and_repeat)
    run_with(database_url, repeat_later)


def test_a_key_that_memory_lost_after_the_disk_was_asked_fails_that_call_alone(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    some = numbered(0, 2)

    async def work(log: LogService) -> None:
        await log.create(segments=1)
        database, read = log.parts.database, log.parts.database.read

        async def read_and_be_late(*given: Any, **options: Any) -> Any:
            found = await read(*given, **options)
            monkeypatch.setattr(database, "read", read)
            assert await log.append_by_key(some, "one") == {0: 2}
            await log.state.reload()
            return found

        monkeypatch.setattr(database, "read", read_and_be_late)
        with pytest.raises(UnavailableError, match="read again meanwhile"):
            await log.append_by_key(some, "one")
        assert await log.append_by_key(some, "one") == {0: 2}
        assert (await log.read(0))[1] == some

    run_with(database_url, work)
    assert "UNIQUE" not in caplog.text.upper()


def test_a_stream_that_is_deleted_while_logs_are_looked_after_is_no_error(
    database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(log: LogService) -> None:
        await log.create(segments=1)
        log.state.deleted = True
        parts, compactor = log.parts, Compactor(log.parts.database)
        maintenance = Maintenance(
            parts.registry, parts.sequencer, parts.database, compactor, parts.clocks, None
        )
        await maintenance._maintain_logs()
        log.state.deleted = False

    run_with(database_url, work)
    assert [one.getMessage() for one in caplog.records if one.levelname == "ERROR"] == []


async def _create(client: httpx.AsyncClient, **settings: object) -> None:
    wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    (await client.put(ONE, json=wanted | settings)).raise_for_status()


async def _note(client: httpx.AsyncClient, time: int, position: dict[str, int]) -> None:
    report = {"time": time, "position": position}
    (await client.post(f"{ONE}/writers/w/note-time", json=report)).raise_for_status()


def test_a_position_is_looked_up_while_a_partition_is_added(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        async with in_process(ServeSettings(database_url=database_url)) as (app, client):
            await _create(client, max_segments=2)
            await _note(client, NOW, {"0": 1})
            database, read = app.parts.database, app.parts.database.read

            async def read_later(work: Any) -> Any:
                monkeypatch.undo()
                await _note(client, NOW + 1_000, {"0": 1, "1": 1})
                return await read(work)

            monkeypatch.setattr(database, "read", read_later)
            found = await client.get(f"{ONE}/marks/at", params={"position": "0:1"})
            assert found.raise_for_status().json()["passed"]["revision"] == 1

    asyncio.run(scene())
