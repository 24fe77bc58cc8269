"""Reader groups over a real server: everything is read, in order, and the window tells it."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import httpx
import pytest

from reader_client import Reader, ReaderGroup, StreamClient, TimeWindow
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.shares import is_fenced
from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from writer_client import TimeReporter, Writer

_NUMBERS = count(1)
_EVENTS = 300


@pytest.fixture
def stream(shared_server: ServerProcess) -> str:
    name = f"readers/stream-{next(_NUMBERS)}"
    settings = {"segments": 3, "mark_interval_ms": 0, "mark_resolution_ms": 0}
    answer = httpx.put(f"{shared_server.url}/v1/streams/{name}", json=settings)
    answer.raise_for_status()
    with Writer(shared_server.url, name, "writer") as writer:
        for number in range(_EVENTS):
            writer.write(str(number), key=f"key-{number % 20}", event_time=1_000 + number)
        writer.note_time(1_000 + _EVENTS)
    return name


@pytest.fixture
def group(shared_server: ServerProcess, stream: str) -> Iterator[ReaderGroup]:
    with ReaderGroup(shared_server.url, stream + "-group") as one:
        one.create([stream], heartbeat_ms=100)
        yield one


def _drain(*readers: Reader) -> list[tuple[int, int, str]]:
    found: list[tuple[int, int, str]] = []
    empty = 0
    while empty < 2 * len(readers):
        for reader in readers:
            events = reader.read_next(wait_ms=0, limit=40)
            found += [(one.segment, one.offset, one.value.decode()) for one in events]
            empty = 0 if events else empty + 1
    return found


def test_two_readers_read_every_event_once_and_in_order(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with (
        Reader(shared_server.url, stream + "-group", "one") as one,
        Reader(shared_server.url, stream + "-group", "two") as two,
    ):
        found = _drain(one, two)
        owned = [one.owned for one in group.describe().state.readers.values()]
    assert sorted(len(segments[stream]) for segments in owned) == [1, 2]
    assert sorted(int(value) for _, _, value in found) == list(range(_EVENTS))
    for segment in range(3):
        offsets = [offset for where, offset, _ in found if where == segment]
        assert offsets == list(range(len(offsets)))


def test_segments_are_read_in_turn_however_much_is_in_each(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with Reader(shared_server.url, stream + "-group", "one") as reader:
        first = [reader.read_next(wait_ms=0, limit=1)[0].segment for _ in range(6)]
    assert sorted(first[:3]) == sorted(first[3:]) == [0, 1, 2]


def test_a_reader_goes_on_when_it_is_not_told_what_became_of_its_changes(
    shared_server: ServerProcess,
    stream: str,
    group: ReaderGroup,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    send, confirmed = httpx.AsyncClient.send, count()
    lost: list[tuple[str, str]] = []
    with StreamClient(shared_server.url, stream) as client:
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
    with Reader(shared_server.url, stream + "-group", "one") as reader:
        found = _drain(reader)
    assert sorted(int(value) for _, _, value in found) == list(range(_EVENTS))
    assert set(lost) == {("PUT", "state"), ("POST", "position")}
    assert group.describe().state.readers == {}


def test_the_window_follows_what_was_confirmed_and_goes_back_with_a_reader(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    assert group.get_time_window(stream).lower is None
    with Reader(shared_server.url, stream + "-group", "one") as reader:
        _drain(reader)
        assert reader.get_time_window(stream).lower == 1_000 + _EVENTS
    assert group.get_time_window(stream).upper is None
    behind = Reader(shared_server.url, stream + "-group", "one")
    behind.open()
    behind.read_next(wait_ms=0)
    group.reader_offline("one", {stream: {0: 0}}, epoch=behind.epoch or 0)
    assert group.get_time_window(stream).lower is None
    wait_until(lambda: is_fenced(behind))
    with pytest.raises(ReaderFencedError):
        behind.close()


def test_the_window_over_rest_is_that_of_the_client(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with Reader(shared_server.url, stream + "-group", "one") as reader:
        while reader.read_next(wait_ms=0):
            window = group.get_time_window(stream)
            path = f"{shared_server.url}/v1/reader-groups/{stream}-group/time-window"
            answer = httpx.get(path, params={"stream": stream}).raise_for_status().json()
            assert TimeWindow(answer["lower"], answer["upper"]) == window
            assert {int(n): o for n, o in answer["position"].items()} == group.position(stream)
    assert group.get_time_window(stream) == TimeWindow(1_000 + _EVENTS, None)


def test_a_reader_is_fenced_when_its_name_is_taken_over(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    former = Reader(shared_server.url, stream + "-group", "same")
    former.open()
    with Reader(shared_server.url, stream + "-group", "same") as latter:
        assert latter.epoch == 2
        wait_until(lambda: is_fenced(former))
        assert len(_drain(latter)) == _EVENTS
    assert group.describe().state.readers == {}
    with pytest.raises(ReaderFencedError):
        former.close()


def test_what_came_to_a_reader_whose_block_failed_is_read_again(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    def fail() -> None:
        with Reader(shared_server.url, stream + "-group", "one") as reader:
            assert len(reader.read_next(wait_ms=0, limit=10)) == 10
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert group.describe().state.readers == {}
    with Reader(shared_server.url, stream + "-group", "next") as reader:
        assert len(_drain(reader)) == _EVENTS


def test_a_group_resumes_exactly_at_its_checkpoint(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with Reader(shared_server.url, stream + "-group", "one") as reader:
        before = reader.read_next(wait_ms=0, limit=25)
        position = reader.checkpoint("here")
    assert sum(position[stream].values()) == len(before) == 25
    with ReaderGroup(shared_server.url, stream + "-resumed") as resumed:
        resumed.create([stream], start_cut=position)
        with Reader(shared_server.url, stream + "-resumed", "one") as reader:
            assert len(_drain(reader)) == _EVENTS - 25


def test_readers_of_an_external_log_own_what_it_assigns_to_them(
    shared_server: ServerProcess,
) -> None:
    name = f"readers/external-{next(_NUMBERS)}"
    url = shared_server.url
    settings = {"log": "external", "segments": 2, "max_segments": 3, "mark_interval_ms": 0}
    httpx.put(f"{url}/v1/streams/{name}", json=settings).raise_for_status()
    with TimeReporter(url, name, "writer") as reporter, ReaderGroup(url, name) as group:
        reporter.note_time(1_700_000_000_000, {0: 10, 1: 10})
        group.create([name])
        with Reader(url, name, "one") as one, Reader(url, name, "two") as two:
            one.confirm({name: {0: 10}})
            assert one.get_time_window(name).lower is None
            two.confirm({name: {1: 12}})
            assert two.get_time_window(name).lower == 1_700_000_000_000
            reporter.note_time(1_700_000_001_000, {0: 10, 1: 10, 2: 5})
            with pytest.raises(InvalidTransitionError, match="is not unassigned"):
                two.confirm({name: {0: 10, 1: 12, 2: 5}})
            one.confirm({name: {}})
            two.confirm({name: {0: 10, 1: 12, 2: 5}})
            assert group.get_time_window(name).lower == 1_700_000_001_000
        assert group.position(name) == {0: 10, 1: 12, 2: 5}
