"""A lease or connection that is lost while changes wait leaves no memory beside the disk."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from controller import lifecycle, reports
from controller.configuration import ServeSettings
from controller.sequencer import Batch
from controller.service import Service
from controller.streams import StreamState
from tests.postgres import Cluster
from tidegauge.errors import OutcomeUnknownError, TidegaugeError
from tidegauge.names import StreamName
from tidegauge.wire.streams import CreateStream
from tidegauge.wire.writers import NoteTime

NOW = 1_700_000_000_000
LEASE_MS = 2_000


@pytest.fixture
def database_url(cluster: Cluster) -> str:
    return cluster.database()


@asynccontextmanager
async def _controller(database_url: str) -> AsyncIterator[Service]:
    settings = ServeSettings(database_url=database_url, lease_ms=LEASE_MS)
    service = Service(settings, address=f"http://{uuid4()}")
    await service.start()
    try:
        yield service
    finally:
        await service.close()


async def _create(service: Service, stream: str) -> StreamState:
    wanted = CreateStream(segments=1, log="external")
    create = partial(
        lifecycle.create_stream,
        service=service,
        name=StreamName("tests", stream),
        wanted=wanted,
        only_create=True,
        key=await service.holding.new_stream_key(),
    )
    state, _ = await service.sequencer.submit(create)
    return state


def _lose_next_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction be committed, but the connection break before the answer."""
    write = service.database.write

    async def lose(work: Callable[[Connection], None], *, rows: int) -> None:
        monkeypatch.setattr(service.database, "write", write)
        await write(work, rows=rows)
        reason = "the connection is lost"
        raise OutcomeUnknownError(reason)

    monkeypatch.setattr(service.database, "write", lose)


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (whatever it looks at)
            await asyncio.sleep(0.01)


def _names(service: Service) -> set[str]:
    return {state.identity.name.stream for state in service.registry}


def test_reports_that_wait_while_a_lease_is_lost_are_not_accepted(
    cluster: Cluster, database_url: str
) -> None:
    async def run() -> list[BaseException | None]:
        async with _controller(database_url) as service:
            state = await _create(service, "one")
            lost = service.holding.controller
            with cluster.connect(cluster.name_of(database_url)) as connection:
                connection.execute("UPDATE streams SET holder = NULL")
                connection.execute("DELETE FROM controllers")
            futures = []
            while service.holding.controller in {lost, 0}:
                futures.append(service.sequencer.submit(partial(_note, service, state)))
                await asyncio.sleep(0.0001)
            return await asyncio.gather(*futures, return_exceptions=True)

    outcomes = asyncio.run(run())
    assert outcomes.count(None) == 0


def _note(service: Service, state: StreamState, batch: Batch) -> None:
    reports.note_time(batch, service.clocks, state, "w", NoteTime(time=NOW, position={0: 1}))


def test_a_stream_whose_release_was_committed_unheard_has_one_holder(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(_controller(database_url))
            for stream in ("one", "two"):
                await _create(first, stream)
            _lose_next_answer(first, monkeypatch)
            second = await stack.enter_async_context(_controller(database_url))
            await _until(lambda: bool(_names(second)))
            assert len(_names(first)) == 1
            assert _names(first) | _names(second) == {"one", "two"}

    asyncio.run(run())


def test_a_stream_whose_deletion_was_committed_unheard_is_gone(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        async with _controller(database_url) as service:
            state = await _create(service, "one")
            _lose_next_answer(service, monkeypatch)
            delete = partial(lifecycle.delete_stream, service=service, state=state)
            with pytest.raises(TidegaugeError):
                await service.sequencer.submit(delete)
            assert _names(service) == set()

    asyncio.run(run())
