"""Readers of a group: nothing is skipped, whoever stops, is fenced, or never learns what became of a call.

The simulation judges what groups of them read under all faults.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Any

import httpx
import pytest

from reader_client import (
    AsyncReader,
    AsyncReaderGroup,
    ExclusiveReader,
    Reader,
    ReaderGroup,
    StreamClient,
)
from tests.patience import until
from tests.service.api import Api, Open
from tidegauge.client.outage import ServiceUnreachableError
from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from tidegauge.groups import GroupState
from tidegauge.wire.groups import GroupInfo

EVENTS = 60
LONG_MS = 30_000
NOW = 1_700_000_000_000
_TAKEN_OVER = 2
"""The change with which a takeover is done: it joins, and then takes."""


@pytest.fixture
def shop(open_shop: Open) -> Api:
    """A stream of three segments with events whose times rise by 1 ms."""
    shop = open_shop(log="embedded", segments=3, mark_resolution_ms=0)
    _write(shop, EVENTS)
    return shop


@pytest.fixture
def group(shop: Api) -> Iterator[ReaderGroup]:
    with shop.group() as group:
        group.create([shop.name], heartbeat_ms=100, dead_after_ms=1_000)
        yield group


def _write(shop: Api, events: int) -> None:
    with shop.writer() as writer:
        for number in range(events):
            writer.write(str(number), key=f"key-{number}", event_time=1_000 + number)
        writer.note_time(1_000 + events)


def _drain(reader: Reader) -> list[int]:
    """Read until nothing comes."""
    found: list[int] = []
    while events := reader.read_next(wait_ms=0, limit=10):
        found += [int(event.value) for event in events]
    return sorted(found)


def test_a_reader_goes_on_when_it_never_learns_what_became_of_its_changes(
    shop: Api, group: ReaderGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    send, confirmed = httpx.AsyncClient.send, count()
    lost: list[tuple[str, str]] = []
    with StreamClient(shop.url, shop.name) as client:
        for segment in range(3):
            client.split(segment)

    async def lose_every_other_answer(
        client: httpx.AsyncClient, request: httpx.Request, **more: Any
    ) -> httpx.Response:
        answer = await send(client, request, **more)
        call = request.method, request.url.path.rpartition("/")[2]
        if call == ("PUT", "state") or (call == ("POST", "position") and next(confirmed) % 2):
            lost.append(call)
            raise httpx.ReadError("lost")
        return answer

    monkeypatch.setattr(httpx.AsyncClient, "send", lose_every_other_answer)
    with shop.reader() as reader:
        found: list[int] = []
        while len(found) < EVENTS:
            found += _drain(reader)
    assert sorted(found) == list(range(EVENTS))
    assert set(lost) == {("PUT", "state"), ("POST", "position")}
    assert group.describe().state.readers == {}


def test_readers_of_an_external_log_own_what_it_assigns_to_them(open_shop: Open) -> None:
    shop = open_shop(segments=2, max_segments=3)
    with shop.reporter() as reporter, shop.group() as group:
        reporter.note_time(NOW, {0: 10, 1: 10})
        group.create([shop.name])
        with shop.reader("one") as one, shop.reader("two") as two:
            one.confirm({shop.name: {0: 10}})
            assert one.get_time_window(shop.name).lower is None
            two.confirm({shop.name: {1: 12}})
            assert two.get_time_window(shop.name).lower == NOW
            reporter.note_time(NOW + 1_000, {0: 10, 1: 10, 2: 5})
            with pytest.raises(InvalidTransitionError, match="is not unassigned"):
                two.confirm({shop.name: {0: 10, 1: 12, 2: 5}})
            one.confirm({shop.name: {}})
            two.confirm({shop.name: {0: 10, 1: 12, 2: 5}})
            assert group.get_time_window(shop.name).lower == NOW + 1_000
        assert group.position(shop.name) == {0: 10, 1: 12, 2: 5}


def test_whoever_stops_in_between_can_go_on_there_or_leaves_the_rest_to_others(
    shop: Api, group: ReaderGroup
) -> None:
    shop.post("seal")
    with shop.reader() as reader:
        found = [*islice(reader, 3), *islice(reader, 4)]
    with shop.reader("next") as reader:
        found += reader
    assert sorted(int(event.value) for event in found) == list(range(EVENTS))


# Iterating: whoever stops in between misses nothing.


def test_what_another_reader_took_over_at_a_checkpoint_is_left_to_it(
    open_shop: Open,
) -> None:
    shop = open_shop(log="embedded", segments=2)
    _write(shop, EVENTS)
    with shop.group() as group:
        group.create([shop.name])
        with shop.reader("one") as one:
            events = iter(one)
            while next(events).segment != 1:
                pass
            with shop.reader("two") as two:
                one.checkpoint("two comes")
                assert two.read_next(wait_ms=0)[0].offset == 1
                assert list(group.describe().state.readers["one"].owned[shop.name]) == [0]
                shop.write(*((f"key-{number}", None) for number in range(EVENTS)))
                assert next(events).segment == 0


# Waiting: what readers ask the service, and for which streams.


class Calls:
    """The calls of clients: how they were asked, which were answered, and in how many rounds."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[str] = []
        self.answered: list[str] = []
        self.rounds = 0
        self._under_way = 0
        send = httpx.AsyncClient.send

        async def record(
            client: httpx.AsyncClient, request: httpx.Request, **more: Any
        ) -> httpx.Response:
            path = request.url.path.removeprefix("/v1/")
            self.asked.append(path)
            self.rounds += not self._under_way
            self._under_way += 1
            try:
                answer = await send(client, request, **more)
            finally:
                self._under_way -= 1
            self.answered.append(path)
            return answer

        monkeypatch.setattr(httpx.AsyncClient, "send", record)

    def forget(self) -> None:
        """Forget what was asked and answered."""
        self.asked, self.answered, self.rounds = [], [], 0

    @property
    def polls(self) -> list[str]:
        """The streams whose tails were asked for."""
        return [_stream_of(path) for path in self.asked if path.endswith("/tail")]

    @property
    def ended(self) -> list[str]:
        """The streams whose tails were answered."""
        return [_stream_of(path) for path in self.answered if path.endswith("/tail")]

    @property
    def kinds(self) -> list[str]:
        """The last words of the calls, in order."""
        return sorted(path.rpartition("/")[2] for path in self.asked)


def _stream_of(path: str) -> str:
    return path.removeprefix("streams/").rpartition("/")[0]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


@pytest.fixture
def two(open_shop: Open) -> Iterator[list[Api]]:
    """Two empty streams, and a group of the name of the first that reads both."""
    shops = [open_shop(log="embedded", segments=3) for _ in range(2)]
    with shops[0].group() as group:
        group.create([shop.name for shop in shops], heartbeat_ms=60_000, dead_after_ms=300_000)
        yield shops


def _read_both(
    two: list[Api], calls: Calls, happen: Callable[[], Awaitable[None]]
) -> list[str]:
    """Let something happen while a reader waits on both, and return the streams that it reads."""

    async def read() -> list[str]:
        async with AsyncReader(two[0].url, two[0].name, "one") as reader:
            reading = asyncio.create_task(reader.read_next(wait_ms=LONG_MS))
            await until(lambda: set(calls.polls) == {shop.name for shop in two})
            await happen()
            return [event.stream for event in await reading]

    return asyncio.run(read())


@pytest.mark.parametrize("busy", [0, 1])
def test_an_event_of_any_stream_ends_the_wait_for_all(
    two: list[Api], calls: Calls, busy: int
) -> None:
    async def write() -> None:
        two[busy].write(("k", None))

    assert _read_both(two, calls, write) == calls.ended == [two[busy].name]


def test_marks_do_not_end_a_wait_and_a_seal_does(two: list[Api], calls: Calls) -> None:
    async def note_and_seal() -> None:
        two[1].note("w", 1_000)
        await until(lambda: calls.polls.count(two[1].name) == 2)
        two[1].post("seal")

    assert _read_both(two, calls, note_and_seal) == []
    assert calls.ended == [two[1].name] * 2


def test_reading_on_costs_one_round_trip_and_waiting_one_call(
    open_shop: Open, calls: Calls
) -> None:
    shop = open_shop(log="embedded")
    for _ in range(6):
        shop.write(("k", None))  # a chunk of its own
    with shop.group() as group:
        group.create([shop.name], heartbeat_ms=60_000, dead_after_ms=300_000)
    with shop.reader() as reader:
        assert len(reader.read_next(wait_ms=0, limit=2)) == 2
        calls.forget()
        assert [len(reader.read_next(wait_ms=0, limit=2)) for _ in range(2)] == [2, 2]
        assert (calls.kinds, calls.rounds) == (["events", "events", "position", "position"], 2)
        calls.forget()
        assert reader.read_next(wait_ms=0) == []
        assert (calls.kinds, calls.rounds) == (["position", "tail"], 1)
        calls.forget()
        assert [reader.read_next(wait_ms=10) for _ in range(3)] == [[], [], []]
        assert (calls.kinds, calls.rounds) == (["tail"] * 3, 3)


# The only reader of a group: it begins where its engine says, and fences whoever read before.


def _exclusive(shop: Api) -> ExclusiveReader:
    return ExclusiveReader(shop.url, shop.name, "engine")


def test_an_exclusive_reader_that_was_silent_for_too_long_comes_back(
    shop: Api, group: ReaderGroup
) -> None:
    with _exclusive(shop) as engine:
        engine.take_over({shop.name: {0: 0, 1: 0, 2: 0}})
        group.reader_offline("engine", epoch=group.describe().state.epochs)
        engine.confirm({shop.name: {0: 4, 1: 4, 2: 4}})
        assert list(group.describe().state.readers) == ["engine"]
        assert group.position(shop.name) == {0: 4, 1: 4, 2: 4}
        with _exclusive(shop) as newer:
            newer.take_over({shop.name: {0: 4, 1: 4, 2: 4}})
            with pytest.raises(ReaderFencedError):
                engine.confirm({shop.name: {0: 5, 1: 5, 2: 5}})


def test_an_exclusive_reader_knows_its_epoch_though_the_service_dies_behind_its_takeover(
    shop: Api, group: ReaderGroup, monkeypatch: pytest.MonkeyPatch
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
            raise ServiceUnreachableError(shop.url, "it was killed")
        return await describe(self)

    with _exclusive(shop) as engine:
        with monkeypatch.context() as dying, suppress(ServiceUnreachableError):
            dying.setattr(AsyncReaderGroup, "change", change_and_die)
            dying.setattr(AsyncReaderGroup, "describe", describe_or_fail)
            engine.take_over({shop.name: {0: 0, 1: 0, 2: 0}})
        engine.confirm({shop.name: {0: 4, 1: 4, 2: 4}})
        assert group.position(shop.name) == {0: 4, 1: 4, 2: 4}
