"""The only reader of a group: it begins where it is told, and fences whoever read before."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
import pytest

from reader_client import AsyncReaderGroup, ExclusiveReader, Reader, ReaderGroup
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.shares import is_fenced
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import ReaderFencedError
from tidegauge.groups import GroupState
from tidegauge.wire.groups import GroupInfo
from writer_client import Writer

_NUMBERS = count(1)
_EVENTS = 60
_TAKEN_OVER = 2
"""The change with which a takeover is done: it joins, and then takes."""


@pytest.fixture
def stream(shared_server: ServerProcess) -> str:
    name = f"exclusive/stream-{next(_NUMBERS)}"
    settings = {"segments": 2, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    url = f"{shared_server.url}/v1/streams/{name}"
    httpx.put(url, json=settings).raise_for_status()
    with Writer(shared_server.url, name, "writer") as writer:
        for number in range(_EVENTS):
            writer.write(str(number), key=f"key-{number}", event_time=1_000 + number)
        writer.note_time(1_000 + _EVENTS)
    return name


@pytest.fixture
def group(shared_server: ServerProcess, stream: str) -> Iterator[ReaderGroup]:
    with ReaderGroup(shared_server.url, stream) as one:
        one.create([stream], heartbeat_ms=100, dead_after_ms=1_000)
        yield one


def test_an_exclusive_reader_goes_back_and_fences_whoever_read(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    former = Reader(shared_server.url, stream, "former")
    while former.read_next(wait_ms=0):
        pass
    with ExclusiveReader(shared_server.url, stream, "engine") as engine:
        engine.take_over({stream: {0: 3, 1: 0}})
        assert group.position(stream) == {0: 3, 1: 0}
        wait_until(lambda: is_fenced(former))
        engine.confirm({stream: {0: 5, 1: 2}})
        assert group.position(stream) == {0: 5, 1: 2}
        with pytest.raises(ReaderFencedError):
            former.close()


def test_an_exclusive_reader_that_was_silent_for_too_long_comes_back(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with ExclusiveReader(shared_server.url, stream, "engine") as engine:
        engine.take_over({stream: {0: 0, 1: 0}})
        group.reader_offline("engine", epoch=group.describe().state.epochs)
        engine.confirm({stream: {0: 4, 1: 4}})
        assert list(group.describe().state.readers) == ["engine"]
        assert group.position(stream) == {0: 4, 1: 4}
        with ExclusiveReader(shared_server.url, stream, "engine") as newer:
            newer.take_over({stream: {0: 4, 1: 4}})
            with pytest.raises(ReaderFencedError):
                engine.confirm({stream: {0: 5, 1: 5}})


def test_an_exclusive_reader_knows_its_epoch_though_the_service_dies_behind_its_takeover(
    shared_server: ServerProcess,
    stream: str,
    group: ReaderGroup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    change, describe, changes = AsyncReaderGroup.change, AsyncReaderGroup.describe, count(1)
    is_away = False

    async def change_and_die(self: AsyncReaderGroup, *given: Any) -> GroupState:
        nonlocal is_away
        state = await change(self, *given)
        is_away = next(changes) == _TAKEN_OVER
        return state

    async def describe_or_fail(self: AsyncReaderGroup) -> GroupInfo:
        if is_away:
            raise ServiceUnreachableError(shared_server.url, "it was killed")
        return await describe(self)

    with ExclusiveReader(shared_server.url, stream, "engine") as engine:
        with monkeypatch.context() as dying, suppress(ServiceUnreachableError):
            dying.setattr(AsyncReaderGroup, "change", change_and_die)
            dying.setattr(AsyncReaderGroup, "describe", describe_or_fail)
            engine.take_over({stream: {0: 0, 1: 0}})
        engine.confirm({stream: {0: 4, 1: 4}})
        assert group.position(stream) == {0: 4, 1: 4}
