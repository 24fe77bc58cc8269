"""Readers that die, wait or come back: nothing is lost, and the others read on."""

from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from typing import Any

import httpx
import pytest

from reader_client import AsyncReaderGroup, ExclusiveReader, Reader, ReaderGroup, TimeWindow
from tests.conftest import NewServer
from tests.integration.shares import is_fenced
from tests.patience import wait_until
from tests.programs import python
from tests.server import LAUNCHER, ServerProcess
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import ReaderFencedError
from tidegauge.groups import GroupState
from tidegauge.wire.groups import GroupInfo
from writer_client import Writer

_NUMBERS = count(1)
_EVENTS = 60
_TAKEN_OVER = 2
"""The change with which a takeover is done: it joins, and then takes."""
_READ_FOR_EVER = """
import sys
from reader_client import Reader
url, group = sys.argv[1:]
reader = Reader(url, group, "doomed")
while True:
    for event in reader.read_next(wait_ms=50, limit=5):
        print(event.value.decode(), flush=True)
"""
_COMPACTING_FOR_EVER = """
import asyncio
from controller.log.compaction import Compactor
async def compact(*_):
    print("compacting", flush=True)
    await asyncio.Event().wait()
Compactor.compact = compact
"""


@pytest.fixture
def stream(shared_server: ServerProcess) -> str:
    name = f"crashes/stream-{next(_NUMBERS)}"
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


def test_the_segments_of_a_killed_reader_go_to_others_and_nothing_is_lost(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with python("-c", _READ_FOR_EVER, shared_server.url, stream) as doomed:
        assert doomed.stdout is not None
        printed = {int(doomed.stdout.readline()) for _ in range(20)}
        doomed.kill()
        printed |= {int(line) for line in doomed.stdout}
    confirmed = sum(group.position(stream).values())
    with Reader(shared_server.url, stream, "heir") as heir:
        found: list[int] = []

        def is_read() -> bool:
            found.extend(int(event.value) for event in heir.read_next(wait_ms=0))
            return group.position(stream) == _tail(shared_server, stream)

        wait_until(is_read)
    assert printed | set(found) == set(range(_EVENTS))
    assert len(found) == len(set(found)) == _EVENTS - confirmed


def test_a_dead_reader_goes_offline_however_long_compaction_takes(
    new_server: NewServer,
) -> None:
    with (
        new_server(launcher=_COMPACTING_FOR_EVER + LAUNCHER) as server,
        ReaderGroup(server.url, "crashes/one") as group,
    ):
        httpx.put(f"{server.url}/v1/streams/crashes/one", json={}).raise_for_status()
        wait_until(lambda: "compacting" in server.log.read_text())
        group.create(["crashes/one"], heartbeat_ms=100, dead_after_ms=200)
        joined = httpx.post(f"{server.url}/v1/reader-groups/crashes/one/readers/dead")
        assert joined.raise_for_status().json()["epoch"] == 1
        wait_until(lambda: not group.describe().state.readers)


def test_the_window_over_rest_is_that_of_the_client(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with Reader(shared_server.url, stream, "one") as reader:
        while reader.read_next(wait_ms=0):
            window = group.get_time_window(stream)
            path = f"{shared_server.url}/v1/reader-groups/{stream}/time-window"
            answer = httpx.get(path, params={"stream": stream}).raise_for_status().json()
            assert TimeWindow(answer["lower"], answer["upper"]) == window
            assert {int(n): o for n, o in answer["position"].items()} == group.position(stream)
    assert group.get_time_window(stream) == TimeWindow(1_000 + _EVENTS, None)


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


def _owned(group: ReaderGroup, stream: str) -> dict[str, dict[int, int]]:
    readers = group.describe().state.readers
    return {name: one.owned.get(stream, {}) for name, one in readers.items()}


def _tail(server: ServerProcess, stream: str) -> dict[int, int]:
    answer = httpx.get(f"{server.url}/v1/streams/{stream}/tail").raise_for_status().json()
    return {int(number): offset for number, offset in answer["tail"].items()}
