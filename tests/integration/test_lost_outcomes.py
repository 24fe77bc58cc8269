"""A lease or connection that is lost while changes wait leaves no memory beside the disk."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal, TypeAlias
from uuid import uuid4

import pytest
from sqlalchemy import Connection

from controller.commit.batch import Batch
from controller.configuration import ServeSettings
from controller.database import open_database
from controller.database.postgresql import PostgresDatabase
from controller.groups import read_groups
from controller.service import Service
from controller.streams import lifecycle, reports
from controller.streams.stream import StreamState
from tests.patience import until
from tests.postgres import Cluster
from tidegauge.errors import OutcomeUnknownError, UnavailableError, UnknownGroupError
from tidegauge.groups import join_group
from tidegauge.names import StreamName
from tidegauge.wire.groups import CreateGroup
from tidegauge.wire.streams import CreateStream
from tidegauge.wire.writers import NoteTime

NOW = 1_700_000_000_000
Log = Literal["embedded", "external"]
Scene: TypeAlias = Callable[[Service], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Scene], None]
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


@pytest.fixture
def play(database_url: str) -> Play:
    """Let a controller live through a scene."""

    async def run(scene: Scene) -> None:
        async with _controller(database_url) as service:
            await scene(service)

    return lambda scene: asyncio.run(run(scene))


async def _create(service: Service, stream: str, log: Log = "external") -> StreamState:
    key = await service.ownership.new_stream_key()
    state, _ = await service.sequencer.submit(_creation(service, stream, key, log))
    return state


def _creation(
    service: Service, stream: str, key: int | None, log: Log = "external"
) -> Callable[[Batch], tuple[StreamState, bool]]:
    return partial(
        lifecycle.create_stream,
        service=service,
        name=StreamName("tests", stream),
        wanted=CreateStream(segments=1, log=log),
        only_create=True,
        key=key,
    )


def _lose_next_answer(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction be committed, but the connection break before the answer."""
    write = service.database.write

    async def lose(work: Callable[[Connection], None], *, rows: int) -> None:
        monkeypatch.setattr(service.database, "write", write)
        await write(work, rows=rows)
        reason = "the connection is lost"
        raise OutcomeUnknownError(reason)

    monkeypatch.setattr(service.database, "write", lose)


def _fail_next_transaction(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the database refuse the next transaction at its end."""
    write = service.database.write

    async def fail(work: Callable[[Connection], None], *, rows: int) -> None:
        monkeypatch.setattr(service.database, "write", write)

        def fail_at_last(connection: Connection) -> None:
            work(connection)
            connection.exec_driver_sql("SELECT 1 / 0")

        await write(fail_at_last, rows=rows)

    monkeypatch.setattr(service.database, "write", fail)


def _names(service: Service) -> set[str]:
    return {state.identity.name.stream for state in service.registry}


DIES_AT_COMMIT = """
    CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        PERFORM pg_terminate_backend(pg_backend_pid());
        PERFORM pg_sleep(10);
    END
    $$;
    CREATE CONSTRAINT TRIGGER die AFTER INSERT ON listening
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die();
"""


def test_what_became_of_a_commit_that_lost_its_connection_is_said_to_be_unknown(
    cluster: Cluster, database_url: str
) -> None:
    with cluster.connect(cluster.name_of(database_url)) as connection:
        connection.execute(DIES_AT_COMMIT)

    def insert(connection: Connection) -> None:
        connection.exec_driver_sql("INSERT INTO listening VALUES (7, 0)")

    async def run() -> None:
        database = open_database(database_url)
        assert isinstance(database, PostgresDatabase)
        try:
            ways = (partial(database.write, rows=1), database.change, database.change_aside)
            for way in ways:
                with pytest.raises(OutcomeUnknownError):
                    await way(insert)
        finally:
            database.close()

    asyncio.run(run())


def test_reports_that_wait_while_a_lease_is_lost_are_not_accepted(
    cluster: Cluster, database_url: str
) -> None:
    async def run() -> list[BaseException | None]:
        async with _controller(database_url) as service:
            state = await _create(service, "one")
            lost = service.ownership.controller
            with cluster.connect(cluster.name_of(database_url)) as connection:
                connection.execute("UPDATE streams SET holder = NULL")
                connection.execute("DELETE FROM controllers")
            futures = []
            while service.ownership.controller in {lost, 0}:
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
            await until(lambda: bool(_names(second)))
            assert len(_names(first)) == 1
            assert _names(first) | _names(second) == {"one", "two"}

    asyncio.run(run())


def test_a_stream_whose_deletion_was_committed_unheard_is_gone(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        state = await _create(service, "one")
        _lose_next_answer(service, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await service.sequencer.submit(partial(lifecycle.delete_stream, state=state))
        assert _names(service) == set()

    play(scene)


def test_a_stream_whose_creation_was_committed_unheard_is_there(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        _lose_next_answer(service, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await _create(service, "one")
        state = service.stream(StreamName("tests", "one"))
        await service.sequencer.submit(partial(_note, service, state))

    play(scene)


def test_a_stream_that_was_replaced_in_one_failed_transaction_is_the_former_one(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        state = await _create(service, "one")
        key = await service.ownership.new_stream_key()
        _fail_next_transaction(service, monkeypatch)
        deleting = service.sequencer.submit(partial(lifecycle.delete_stream, state=state))
        creating = service.sequencer.submit(_creation(service, "one", key))
        outcomes = await asyncio.gather(deleting, creating, return_exceptions=True)
        assert [type(one) for one in outcomes] == [UnavailableError, UnavailableError]
        assert service.stream(StreamName("tests", "one")) is state
        await service.sequencer.submit(partial(_note, service, state))

    play(scene)


GROUP = StreamName("tests", "group")


async def _create_group(service: Service) -> None:
    await _create(service, "log", log="embedded")
    await service.groups.create(GROUP, CreateGroup(streams=["tests/log"]))


async def _join(service: Service, reader: str) -> int:
    """Join the group, and tell its revision then."""
    logs = await service.groups.logs(service.groups.get(GROUP).settings)

    def decide(batch: Batch) -> int:
        transition = partial(join_group, reader=reader)
        changed = service.groups.change(GROUP, transition, batch, logs=logs)
        return changed.revision

    return await service.sequencer.submit(decide)


async def _in_memory(service: Service) -> tuple[int, set[str]]:
    group = await service.sequencer.read(lambda: service.groups.get(GROUP))
    assert set(group.heard) == set(group.state.readers)
    return group.newest.revision, set(group.state.readers)


async def _on_disk(service: Service) -> tuple[int, set[str]]:
    (stored,) = await service.database.read(read_groups)
    return stored.revision, set(stored.state.readers)


def test_a_group_whose_change_was_committed_unheard_is_what_was_stored(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        await _create_group(service)
        _lose_next_answer(service, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await _join(service, "a")
        assert await _in_memory(service) == await _on_disk(service) == (2, {"a"})
        assert await _join(service, "b") == 3

    play(scene)


def test_a_group_whose_change_failed_is_what_it_was(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        await _create_group(service)
        _fail_next_transaction(service, monkeypatch)
        with pytest.raises(UnavailableError):
            await _join(service, "a")
        assert await _in_memory(service) == await _on_disk(service) == (1, set())

    play(scene)


def test_a_group_whose_deletion_was_committed_unheard_is_gone(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        await _create_group(service)
        _lose_next_answer(service, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await service.sequencer.submit(partial(service.groups.delete, GROUP))
        with pytest.raises(UnknownGroupError):
            service.groups.get(GROUP)
        _, is_new = await service.groups.create(
            GROUP, CreateGroup(streams=["tests/log"], heartbeat_ms=1_000)
        )
        assert is_new

    play(scene)


def test_a_group_whose_deletion_failed_is_there(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        await _create_group(service)
        _fail_next_transaction(service, monkeypatch)
        with pytest.raises(UnavailableError):
            await service.sequencer.submit(partial(service.groups.delete, GROUP))
        assert await _join(service, "a") == 2

    play(scene)


def test_a_group_whose_creation_was_committed_unheard_is_there(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(service: Service) -> None:
        await _create(service, "log", log="embedded")
        _lose_next_answer(service, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await service.groups.create(GROUP, CreateGroup(streams=["tests/log"]))
        assert await _join(service, "a") == 2

    play(scene)
