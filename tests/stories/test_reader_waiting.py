"""How readers wait: what they ask the service, and for which streams."""

import asyncio
from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from reader_client import AsyncReader, Reader, ReaderGroup
from tests.patience import until
from tests.server import Api, ServerProcess

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

_NUMBERS = count(1)
_LONG_MS = 30_000


class Polls:
    """The long polls of clients: those that were asked, and those that were answered."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answered: list[str] = []
        self._send = httpx.AsyncClient.send

    async def send(
        self, client: httpx.AsyncClient, request: httpx.Request, **more: Any
    ) -> httpx.Response:
        if not request.url.path.endswith("/tail"):
            return await self._send(client, request, **more)
        stream = request.url.path.removeprefix("/v1/streams/").removesuffix("/tail")
        self.asked.append(stream)
        answer = await self._send(client, request, **more)
        self.answered.append(stream)
        return answer


@pytest.fixture
def polls(monkeypatch: pytest.MonkeyPatch) -> Polls:
    polls = Polls()

    async def send(client: httpx.AsyncClient, request: httpx.Request, **more: Any) -> Any:
        return await polls.send(client, request, **more)

    monkeypatch.setattr(httpx.AsyncClient, "send", send)
    return polls


@pytest.fixture
def streams(shared_server: ServerProcess) -> Iterator[list[Api]]:
    """Two streams, and a group that reads both."""
    names = [f"waiting/stream-{next(_NUMBERS)}" for _ in range(2)]
    with Api(shared_server.url, names[0]) as one, Api(shared_server.url, names[1]) as two:
        for api in (one, two):
            api.create(log="embedded", segments=3, mark_interval_ms=0)
        with ReaderGroup(shared_server.url, names[0]) as group:
            group.create(names)
        yield [one, two]


def _write(api: Api) -> None:
    api.client.post(
        f"{api.path}/events",
        content='{"key": "k", "value": "v"}',
        headers={"content-type": "application/x-ndjson"},
    ).raise_for_status()


def test_one_poll_a_stream_is_asked_however_many_segments_are_owned(
    shared_server: ServerProcess, streams: list[Api], polls: Polls
) -> None:
    names = sorted(api.name for api in streams)
    with Reader(shared_server.url, streams[0].name, "one") as reader:
        assert reader.read_next(wait_ms=50) == []
        assert sorted(polls.asked) == names
        _write(streams[1])
        assert len(reader.read_next(wait_ms=_LONG_MS)) == 1
        assert sorted(polls.asked) == sorted(names * 2)


@pytest.mark.parametrize("busy", [0, 1])
def test_an_event_of_any_stream_ends_the_wait_for_all(
    shared_server: ServerProcess, streams: list[Api], polls: Polls, busy: int
) -> None:
    async def read() -> list[str]:
        async with AsyncReader(shared_server.url, streams[0].name, "one") as reader:
            reading = asyncio.create_task(reader.read_next(wait_ms=_LONG_MS))
            await until(lambda: set(polls.asked) == {api.name for api in streams})
            _write(streams[busy])
            return [event.stream for event in await reading]

    assert asyncio.run(read()) == polls.answered == [streams[busy].name]


def test_marks_do_not_end_a_wait_and_a_seal_does(
    shared_server: ServerProcess, streams: list[Api], polls: Polls
) -> None:
    one, two = (api.name for api in streams)

    async def read() -> list[str]:
        async with AsyncReader(shared_server.url, one, "one") as reader:
            reading = asyncio.create_task(reader.read_next(wait_ms=_LONG_MS))
            await until(lambda: set(polls.asked) == {one, two})
            streams[1].note("w", 1_000)
            await until(lambda: polls.asked.count(two) == 2)
            streams[1].client.post(f"{streams[1].path}/seal").raise_for_status()
            return [event.stream for event in await reading]

    assert asyncio.run(read()) == []
    assert polls.answered == [two, two]


def test_reading_on_costs_one_round_trip_and_waiting_one_call(
    shared_server: ServerProcess, streams: list[Api], monkeypatch: pytest.MonkeyPatch
) -> None:
    name, send, under_way, rounds = streams[0].name, httpx.AsyncClient.send, 0, 0
    calls: list[str] = []

    async def count_rounds(
        client: httpx.AsyncClient, request: httpx.Request, **more: Any
    ) -> Any:
        nonlocal under_way, rounds
        calls.append(request.url.path.rpartition("/")[2])
        rounds += not under_way
        under_way += 1
        try:
            return await send(client, request, **more)
        finally:
            under_way -= 1

    for _ in range(6):
        _write(streams[0])
    with ReaderGroup(shared_server.url, name + "-alone") as group:
        group.create([name], heartbeat_ms=60_000, dead_after_ms=300_000)
    with Reader(shared_server.url, name + "-alone", "one") as reader:
        assert len(reader.read_next(wait_ms=0, limit=2)) == 2
        monkeypatch.setattr(httpx.AsyncClient, "send", count_rounds)
        assert [len(reader.read_next(wait_ms=0, limit=2)) for _ in range(2)] == [2, 2]
        assert (sorted(calls), rounds) == (["events", "events", "position", "position"], 2)
        assert reader.read_next(wait_ms=0) == []
        assert (sorted(calls[4:]), rounds) == (["position", "tail"], 3)
        assert [reader.read_next(wait_ms=10) for _ in range(3)] == [[], [], []]
        assert (calls[6:], rounds) == (["tail"] * 3, 6)
        monkeypatch.undo()
    assert (
        streams[0].client.get(f"/v1/reader-groups/{name}-alone").json()["state"]["readers"]
        == {}
    )
