"""What happens between the steps of a read or an append."""

import asyncio
from functools import partial

import pytest

from controller.log.compaction import Compactor
from controller.streams import lifecycle, reading
from tests.service.log_api import numbered
from tests.service.log_service import LogService, run_with, stored_events
from tidegauge.errors import UnavailableError, UnknownStreamError

pytestmark = pytest.mark.about_sql


@pytest.fixture
def one_chunk_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PAGE_BYTES", 1)


async def with_chunks(log: LogService, count: int) -> None:
    await log.create(segments=1)
    await log.register("w")
    for sequence in range(1, count + 1):
        await log.append("w", 1, 0, sequence, numbered(3 * sequence - 3, 3))


@pytest.mark.usefixtures("one_chunk_pages")
def test_a_read_goes_on_where_it_was_when_chunks_are_merged_meanwhile(
    database_url: str,
) -> None:
    async def work(log: LogService) -> None:
        await with_chunks(log, 20)
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
        await with_chunks(log, 3)
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
