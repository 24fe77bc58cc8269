"""A client that was closed, made before a fork, or cannot be opened says so, and leaves nothing behind."""

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, ExitStack
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from reader_client import (
    AsyncExclusiveReader,
    AsyncReader,
    AsyncReaderGroup,
    AsyncStreamClient,
    ClientClosedError,
    ExclusiveReader,
    Reader,
    ReaderGroup,
    StreamClient,
)
from tests.patience import PATIENCE_S
from tests.server import Api, ServerProcess
from tidegauge.errors import TidegaugeError, UnknownGroupError, UnknownStreamError
from writer_client import (
    AsyncTimeReporter,
    AsyncWriter,
    ForkedClientError,
    TimeReporter,
    Writer,
    WriterClosedError,
)

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

_NUMBERS = count(1)


class Place(NamedTuple):
    """Where clients work."""

    url: str
    embedded: str
    external: str
    group: str


@pytest.fixture
def place(shared_server: ServerProcess) -> Iterator[Place]:
    number = next(_NUMBERS)
    place = Place(
        shared_server.url,
        embedded=f"closed/embedded-{number}",
        external=f"closed/external-{number}",
        group=f"closed/group-{number}",
    )
    for log, name in (("embedded", place.embedded), ("external", place.external)):
        with Api(shared_server.url, name) as api:
            api.create(log=log)
    with ReaderGroup(shared_server.url, place.group) as made:
        made.create([place.embedded])
    yield place
    assert _threads() == set()


def _threads() -> set[str]:
    names = {thread.name for thread in threading.enumerate()}
    return {name for name in names if name.startswith("tidegauge-")}


def _reader(place: Place) -> Reader:
    return Reader(place.url, place.group, "r")


FACES: dict[str, tuple[Callable[[Place], Any], list[Callable[[Any], object]]]] = {
    "writer": (
        lambda place: Writer(place.url, place.embedded, "w"),
        [
            lambda one: one.open(),
            lambda one: one.write("v", key="k"),
            lambda one: one.note_time(1),
            lambda one: one.flush(),
            lambda one: one.leave(),
        ],
    ),
    "reporter": (
        lambda place: TimeReporter(place.url, place.external, "w"),
        [
            lambda one: one.open(),
            lambda one: one.note_time(1, {0: 1}),
            lambda one: one.leave(),
        ],
    ),
    "reader": (
        _reader,
        [
            lambda one: one.open(),
            lambda one: one.read_next(wait_ms=0),
            lambda one: next(iter(one)),
            lambda one: one.checkpoint("c"),
            lambda one: one.get_time_window("closed/embedded"),
        ],
    ),
    "exclusive reader": (
        lambda place: ExclusiveReader(place.url, place.group, "r"),
        [lambda one: one.take_over({}), lambda one: one.confirm({})],
    ),
    "group": (
        lambda place: ReaderGroup(place.url, place.group),
        [lambda one: one.describe(), lambda one: one.delete()],
    ),
    "stream": (
        lambda place: StreamClient(place.url, place.embedded),
        [lambda one: one.tail(), lambda one: one.marks(), lambda one: list(one.read(0, 0, 1))],
    ),
}
CASES = [(name, use) for name, (_, uses) in FACES.items() for use in range(len(uses))]


def _closed_error(name: str) -> type[TidegaugeError]:
    return WriterClosedError if name in {"writer", "reporter"} else ClientClosedError


@pytest.mark.parametrize(("name", "use"), CASES)
@pytest.mark.parametrize("used", [False, True])
def test_a_closed_client_says_so_and_starts_no_thread(
    place: Place, name: str, use: int, *, used: bool
) -> None:
    make, uses = FACES[name]
    client = make(place)
    if used:
        positions: dict[str, dict[int, int]] = {place.embedded: {}}
        client.take_over(positions) if name == "exclusive reader" else uses[0](client)
    client.close()
    client.close()
    with pytest.raises(_closed_error(name), match="is closed; make another"):
        uses[use](client)


ASYNCHRONOUS: dict[
    str, tuple[Callable[[Place], Any], Callable[[Any], Coroutine[Any, Any, Any]]]
]
ASYNCHRONOUS = {
    "writer": (
        lambda place: AsyncWriter(place.url, place.embedded, "w"),
        lambda one: one.flush(),
    ),
    "reporter": (
        lambda place: AsyncTimeReporter(place.url, place.external, "w"),
        lambda one: one.note_time(1, {0: 1}),
    ),
    "reader": (
        lambda place: AsyncReader(place.url, place.group, "r"),
        lambda one: one.read_next(wait_ms=0),
    ),
    "exclusive reader": (
        lambda place: AsyncExclusiveReader(place.url, place.group, "r"),
        lambda one: one.take_over({}),
    ),
    "group": (
        lambda place: AsyncReaderGroup(place.url, place.group),
        lambda one: one.describe(),
    ),
    "stream": (
        lambda place: AsyncStreamClient(place.url, place.embedded),
        lambda one: one.tail(),
    ),
}


@pytest.mark.parametrize("name", ASYNCHRONOUS)
def test_an_asynchronous_client_says_so_too(place: Place, name: str) -> None:
    make, use = ASYNCHRONOUS[name]

    async def use_it_closed() -> None:
        client = make(place)
        if name != "exclusive reader":
            await use(client)
        close = client.aclose if name in {"group", "stream"} else client.close
        await close()
        with pytest.raises(_closed_error(name), match="is closed; make another"):
            await use(client)

    asyncio.run(use_it_closed())


@pytest.mark.parametrize("name", FACES)
def test_a_forked_child_is_told_to_make_its_own(
    place: Place, name: str, tmp_path: Path
) -> None:
    make, uses = FACES[name]
    said = tmp_path / "said"
    with ExitStack() as stack:
        client = make(place)
        stack.callback(client.close)
        child = os.fork()
        if child == 0:
            try:
                for call in (uses[0], lambda one: one.close()):
                    with pytest.raises(ForkedClientError, match="make one in the child"):
                        call(client)
                said.write_text("twice")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
    assert said.read_text() == "twice"


def test_who_calls_while_a_client_is_closed_is_told_so(place: Place) -> None:
    reporter = TimeReporter(place.url, place.external, "w")
    reporter.open()
    ends: list[BaseException] = []

    def note_for_ever() -> None:
        try:
            while True:
                reporter.note_time(1, {0: 1})
        except TidegaugeError as error:
            ends.append(error)

    callers = [threading.Thread(target=note_for_ever) for _ in range(8)]
    for caller in callers:
        caller.start()
    reporter.note_time(1, {0: 1})
    reporter.close()
    for caller in callers:
        caller.join(PATIENCE_S)
    assert len(ends) == 8
    assert {type(one) for one in ends} == {WriterClosedError}


@pytest.mark.parametrize("kind", [Writer, TimeReporter, Reader])
def test_who_cannot_enter_leaves_no_thread(
    shared_server: ServerProcess, kind: Callable[..., AbstractContextManager[Any]]
) -> None:
    threads = set(threading.enumerate())
    with (
        pytest.raises((UnknownStreamError, UnknownGroupError)),
        kind(shared_server.url, "tests/none", "w"),
    ):
        pass
    assert set(threading.enumerate()) <= threads


@pytest.mark.parametrize("kind", [AsyncWriter, AsyncTimeReporter, AsyncReader])
def test_who_cannot_enter_leaves_no_connection(
    shared_server: ServerProcess,
    kind: Callable[..., AbstractAsyncContextManager[Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[httpx.AsyncClient] = []
    make = httpx.AsyncClient.__init__

    def remember(client: httpx.AsyncClient, **options: Any) -> None:
        make(client, **options)
        made.append(client)

    async def enter() -> None:
        with pytest.raises((UnknownStreamError, UnknownGroupError)):
            async with kind(shared_server.url, "tests/none", "w"):
                pass

    monkeypatch.setattr(httpx.AsyncClient, "__init__", remember)
    asyncio.run(enter())
    assert [client.is_closed for client in made] == [True]
