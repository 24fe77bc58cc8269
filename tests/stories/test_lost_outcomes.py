"""What is lost on the way to the disk or the caller: leases, connections and controllers, while changes are under way."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import httpx
import pytest
from sqlalchemy import Connection

from controller.cluster import open_right
from controller.commit.batch import Batch
from controller.configuration import ServeSettings
from controller.factory import Parts
from controller.groups import read_groups, read_logs
from controller.process import Process
from controller.streams import lifecycle, reports
from controller.streams.stream import StreamState
from tests.patience import PATIENCE_S
from tests.postgres import Cluster
from tests.server import LAUNCHER, ServerProcess
from tests.service.controllers import NOW, SETTINGS
from tests.service.problems import check_problem
from tests.tokens import Tokens
from tidegauge.errors import OutcomeUnknownError, UnavailableError, UnknownGroupError
from tidegauge.groups import join_group
from tidegauge.names import StreamName
from tidegauge.wire.groups import CreateGroup
from tidegauge.wire.streams import CreateStream
from tidegauge.wire.writers import NoteTime

Log = Literal["embedded", "external"]
Scene: TypeAlias = Callable[[Parts], Coroutine[Any, Any, None]]
Play: TypeAlias = Callable[[Scene], None]


@pytest.fixture
def database_url(cluster: Cluster) -> str:
    return cluster.database()


@asynccontextmanager
async def _controller(database_url: str) -> AsyncIterator[Parts]:
    settings = ServeSettings(database_url=database_url, lease_ms=2_000)
    process = Process(settings, open_right(settings))
    await process.begin()
    assert process.tenure is not None
    try:
        yield process.tenure.parts
    finally:
        await process.close()


@pytest.fixture
def play(database_url: str) -> Play:
    """Let a controller live through a scene."""

    async def run(scene: Scene) -> None:
        async with _controller(database_url) as parts:
            await scene(parts)

    return lambda scene: asyncio.run(run(scene))


async def _create(parts: Parts, stream: str, log: Log = "external") -> StreamState:
    state, _ = await parts.sequencer.submit(_creation(parts, stream, log))
    return state


def _creation(
    parts: Parts, stream: str, log: Log = "external"
) -> Callable[[Batch], tuple[StreamState, bool]]:
    return partial(
        lifecycle.create_stream,
        registry=parts.registry,
        name=StreamName("tests", stream),
        request=CreateStream(segments=1, log=log),
        only_create=True,
    )


def _lose_next_answer(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the next transaction be committed, but the connection break before the answer."""
    write = parts.database.write

    async def lose(work: Callable[[Connection], None], *, rows: int) -> None:
        monkeypatch.setattr(parts.database, "write", write)
        await write(work, rows=rows)
        reason = "the connection is lost"
        raise OutcomeUnknownError(reason)

    monkeypatch.setattr(parts.database, "write", lose)


def _fail_next_transaction(parts: Parts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the database refuse the next transaction at its end."""
    write = parts.database.write

    async def fail(work: Callable[[Connection], None], *, rows: int) -> None:
        monkeypatch.setattr(parts.database, "write", write)

        def fail_at_last(connection: Connection) -> None:
            work(connection)
            connection.exec_driver_sql("SELECT 1 / 0")

        await write(fail_at_last, rows=rows)

    monkeypatch.setattr(parts.database, "write", fail)


def _names(parts: Parts) -> set[str]:
    return {state.identity.name.stream for state in parts.registry}


def test_reports_that_wait_while_a_lease_is_lost_are_not_accepted(
    cluster: Cluster, database_url: str
) -> None:
    async def run() -> list[BaseException | None]:
        async with _controller(database_url) as parts:
            state = await _create(parts, "one")
            with cluster.connect(cluster.name_of(database_url)) as connection:
                connection.execute("DELETE FROM holder")
            futures = []
            while not parts.health.ended:
                futures.append(parts.sequencer.submit(partial(_note, state)))
                await asyncio.sleep(0.0001)
            return await asyncio.gather(*futures, return_exceptions=True)

    outcomes = asyncio.run(run())
    assert outcomes.count(None) == 0


def _note(state: StreamState, batch: Batch) -> None:
    report = NoteTime(time=NOW, position={0: 1})
    reports.note_time(batch, state, "w", report, now=state.now())


def test_a_stream_whose_deletion_was_committed_unheard_is_gone(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(parts: Parts) -> None:
        state = await _create(parts, "one")
        _lose_next_answer(parts, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await parts.sequencer.submit(partial(lifecycle.delete_stream, state=state))
        assert _names(parts) == set()

    play(scene)


def test_a_stream_whose_creation_was_committed_unheard_is_there(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(parts: Parts) -> None:
        _lose_next_answer(parts, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await _create(parts, "one")
        state = parts.registry.get(StreamName("tests", "one"))
        await parts.sequencer.submit(partial(_note, state))

    play(scene)


def test_a_stream_that_was_replaced_in_one_failed_transaction_is_the_former_one(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(parts: Parts) -> None:
        state = await _create(parts, "one")
        _fail_next_transaction(parts, monkeypatch)
        deleting = parts.sequencer.submit(partial(lifecycle.delete_stream, state=state))
        creating = parts.sequencer.submit(_creation(parts, "one"))
        outcomes = await asyncio.gather(deleting, creating, return_exceptions=True)
        assert [type(one) for one in outcomes] == [UnavailableError, UnavailableError]
        assert parts.registry.get(StreamName("tests", "one")) is state
        await parts.sequencer.submit(partial(_note, state))

    play(scene)


GROUP = StreamName("tests", "group")


async def _create_group(parts: Parts) -> None:
    await _create(parts, "log", log="embedded")
    await parts.group_creation.create(GROUP, CreateGroup(streams=["tests/log"]))


async def _join(parts: Parts, reader: str) -> int:
    """Join the group, and tell its revision then."""
    logs = read_logs(parts.registry, parts.groups.get(GROUP).settings)

    def decide(batch: Batch) -> int:
        transition = partial(join_group, reader=reader)
        changed = parts.groups.change(GROUP, transition, batch, logs=logs)
        return changed.revision

    return await parts.sequencer.submit(decide)


async def _in_memory(parts: Parts) -> tuple[int, set[str]]:
    group = await parts.sequencer.read(lambda: parts.groups.get(GROUP))
    assert set(group.heard) == set(group.state.readers)
    return group.newest.revision, set(group.state.readers)


async def _on_disk(parts: Parts) -> tuple[int, set[str]]:
    (stored,) = await parts.database.read(read_groups)
    return stored.revision, set(stored.state.readers)


LOSSES = pytest.mark.parametrize(
    ("lose", "error"),
    [(_lose_next_answer, OutcomeUnknownError), (_fail_next_transaction, UnavailableError)],
)
"""A change is on disk and nobody hears of it, or it is not."""
Lose: TypeAlias = Callable[[Parts, pytest.MonkeyPatch], None]


@LOSSES
def test_a_group_whose_change_is_lost_is_what_is_stored(
    play: Play, monkeypatch: pytest.MonkeyPatch, lose: Lose, error: type[Exception]
) -> None:
    async def scene(parts: Parts) -> None:
        await _create_group(parts)
        lose(parts, monkeypatch)
        with pytest.raises(error):
            await _join(parts, "a")
        expected = (2, {"a"}) if error is OutcomeUnknownError else (1, set())
        assert await _in_memory(parts) == await _on_disk(parts) == expected
        assert await _join(parts, "b") == expected[0] + 1

    play(scene)


@LOSSES
def test_a_group_whose_deletion_is_lost_is_there_if_it_is_stored(
    play: Play, monkeypatch: pytest.MonkeyPatch, lose: Lose, error: type[Exception]
) -> None:
    async def scene(parts: Parts) -> None:
        await _create_group(parts)
        lose(parts, monkeypatch)
        with pytest.raises(error):
            await parts.sequencer.submit(partial(parts.groups.delete, GROUP))
        if error is UnavailableError:
            assert await _join(parts, "a") == 2
            return
        with pytest.raises(UnknownGroupError):
            parts.groups.get(GROUP)
        changed = CreateGroup(streams=["tests/log"], heartbeat_ms=1_000)
        _, is_new = await parts.group_creation.create(GROUP, changed)
        assert is_new

    play(scene)


def test_a_group_whose_creation_was_committed_unheard_is_there(
    play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene(parts: Parts) -> None:
        await _create(parts, "log", log="embedded")
        _lose_next_answer(parts, monkeypatch)
        with pytest.raises(OutcomeUnknownError):
            await parts.group_creation.create(GROUP, CreateGroup(streams=["tests/log"]))
        assert await _join(parts, "a") == 2

    play(scene)


STREAM = "flights/departures"
PATH = f"/v1/streams/{STREAM}"
LOST = f"caller=alice method=DELETE path={PATH} status=502 stream={STREAM}"
WAITING = (
    "SELECT 1 FROM pg_stat_activity "
    "WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
LOSING_FIRST = """
from controller.streams import lifecycle
from tidegauge.errors import OutcomeUnknownError

delete_stream = lifecycle.delete_stream

def lose(*args, **more):
    lifecycle.delete_stream = delete_stream
    raise OutcomeUnknownError("the connection is lost")

lifecycle.delete_stream = lose
"""
Header = dict[str, str]


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    return Tokens(tmp_path)


@pytest.fixture
def alice(tokens: Tokens) -> Header:
    """Show that one is an operator."""
    return tokens.header("alice", "flights", "operate")


@pytest.fixture
def losing(
    cluster: Cluster, tmp_path: Path, tokens: Tokens, alice: Header
) -> Iterator[ServerProcess]:
    """A controller that does not know what came of its first deletion."""
    assert alice  # is in the file before it is read
    url, launcher = cluster.database(), LOSING_FIRST + LAUNCHER
    losing = ServerProcess(tmp_path, database_url=url, launcher=launcher, tokens=tokens.file)
    with losing as server:
        yield server


def test_a_deletion_of_which_nobody_knows_is_logged(
    losing: ServerProcess, alice: Header
) -> None:
    url = losing.url + PATH
    httpx.put(url, json=SETTINGS, headers=alice, timeout=20).raise_for_status()
    answer = httpx.delete(url, headers=alice, timeout=PATIENCE_S)
    check_problem(answer, 502, "outcome_unknown")
    assert re.findall(
        r"operator call.* (caller=\S+ method=DELETE .*)", losing.log.read_text()
    ) == [LOST]
