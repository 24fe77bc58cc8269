"""A client that was closed, made before a fork, or cannot be opened says so, and leaves nothing behind."""

import os
import threading
from collections.abc import Callable, Iterator
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
from tests.service.api import Open
from tidegauge.errors import TidegaugeError, UnknownGroupError, UnknownStreamError
from writer_client import (
    AsyncTimeReporter,
    AsyncWriter,
    ForkedClientError,
    TimeReporter,
    Writer,
    WriterClosedError,
)


class Place(NamedTuple):
    """Where clients work."""

    url: str
    embedded: str
    external: str
    group: str


class Face(NamedTuple):
    """A client of both kinds, and its calls."""

    kind: Callable[..., Any]
    calls: list[Callable[[Any], Any]]
    asynchronous: Callable[..., Any]
    of: str = "group"
    """What of the place it is about."""
    has_name: bool = True
    error: type[TidegaugeError] = ClientClosedError

    def make(self, kind: Callable[..., Any], place: Place) -> Any:
        names = ("w",) if self.has_name else ()
        return kind(place.url, getattr(place, self.of), *names)


FACES = {
    "writer": Face(
        Writer,
        [
            lambda one: one.open(),
            lambda one: one.write("v", key="k"),
            lambda one: one.write_many(["v"], keys=["k"]),
            lambda one: one.note_time(1),
            lambda one: one.flush(),
            lambda one: one.leave(),
        ],
        AsyncWriter,
        of="embedded",
        error=WriterClosedError,
    ),
    "reporter": Face(
        TimeReporter,
        [lambda it: it.open(), lambda it: it.note_time(1, {0: 1}), lambda it: it.leave()],
        AsyncTimeReporter,
        of="external",
        error=WriterClosedError,
    ),
    "reader": Face(
        Reader,
        [
            lambda one: one.open(),
            lambda one: one.read_next(wait_ms=0),
            lambda one: next(iter(one)),
            lambda one: one.checkpoint("c"),
            lambda one: one.get_time_window("closed/embedded"),
        ],
        AsyncReader,
    ),
    "exclusive reader": Face(
        ExclusiveReader,
        [lambda one: one.take_over({}), lambda one: one.confirm({})],
        AsyncExclusiveReader,
    ),
    "group": Face(
        ReaderGroup,
        [lambda one: one.describe(), lambda one: one.delete()],
        AsyncReaderGroup,
        has_name=False,
    ),
    "stream": Face(
        StreamClient,
        [lambda one: one.tail(), lambda one: one.marks(), lambda one: list(one.read(0, 0, 1))],
        AsyncStreamClient,
        of="embedded",
        has_name=False,
    ),
}
of_each_face = pytest.mark.parametrize("face", FACES.values(), ids=FACES)


@pytest.fixture
def place(open_shop: Open) -> Iterator[Place]:
    before = set(threading.enumerate())
    embedded, external = open_shop(log="embedded"), open_shop()
    place = Place(embedded.url, embedded.name, external.name, group=embedded.name)
    with ReaderGroup(place.url, place.group) as made:
        made.create([place.embedded])
    yield place
    names = [thread.name for thread in set(threading.enumerate()) - before]
    assert [name for name in names if name.startswith("tidegauge-")] == []


def _use(client: Any, face: Face, place: Place) -> None:
    if face.kind is ExclusiveReader:
        client.take_over({place.embedded: {}})
    else:
        face.calls[0](client)


@of_each_face
@pytest.mark.parametrize("used", [False, True])
def test_a_closed_client_says_so_and_starts_no_thread(
    place: Place, face: Face, *, used: bool
) -> None:
    client = face.make(face.kind, place)
    if used:
        _use(client, face, place)
    client.close()
    client.close()
    for call in face.calls:
        with pytest.raises(face.error, match="is closed; make another"):
            call(client)


@of_each_face
@pytest.mark.anyio
async def test_an_asynchronous_client_says_so_too(place: Place, face: Face) -> None:
    client = face.make(face.asynchronous, place)
    if face.kind is not ExclusiveReader:
        await face.calls[0](client)
    await (client.close if face.has_name else client.aclose)()
    with pytest.raises(face.error, match="is closed; make another"):
        await face.calls[0](client)


@of_each_face
def test_a_forked_child_is_told_to_make_its_own(
    place: Place, face: Face, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    client = face.make(face.kind, place)
    child = os.fork()
    if child == 0:
        try:
            for call in (face.calls[0], lambda one: one.close()):
                with pytest.raises(ForkedClientError, match="make one in the child"):
                    call(client)
            said.write_text("twice")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    client.close()
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
    assert [type(error) for error in ends] == [WriterClosedError] * 8


NOWHERE = UnknownStreamError, UnknownGroupError


@pytest.mark.parametrize("kind", [Writer, TimeReporter, Reader])
def test_who_cannot_enter_leaves_no_thread_nor_its_frames(
    place: Place, kind: Callable[..., Any]
) -> None:
    with pytest.raises(NOWHERE) as raised, kind(place.url, "tests/none", "w"):
        pass
    assert len(raised.traceback) <= 5
    assert raised.value.__suppress_context__


@pytest.mark.anyio
@pytest.mark.parametrize("kind", [AsyncWriter, AsyncTimeReporter, AsyncReader])
async def test_who_cannot_enter_leaves_no_connection(
    place: Place, kind: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[httpx.AsyncClient] = []
    make = httpx.AsyncClient.__init__

    def remember(client: httpx.AsyncClient, **options: Any) -> None:
        make(client, **options)
        made.append(client)

    monkeypatch.setattr(httpx.AsyncClient, "__init__", remember)
    with pytest.raises(NOWHERE):
        async with kind(place.url, "tests/none", "w"):
            pass
    assert [client.is_closed for client in made] == [True]
