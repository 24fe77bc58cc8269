"""Iterating over a reader: whoever stops in between misses nothing."""

from collections.abc import Iterator
from itertools import count, islice

import httpx
import pytest

from reader_client import Reader, ReaderGroup
from tests.server import ServerProcess
from writer_client import Writer

pytestmark = pytest.mark.only_on("sqlite", "clients know the service only")

_NUMBERS = count(1)
_EVENTS = 40


@pytest.fixture
def stream(shared_server: ServerProcess) -> str:
    name = f"iteration/stream-{next(_NUMBERS)}"
    url = f"{shared_server.url}/v1/streams/{name}"
    httpx.put(url, json={"segments": 2, "mark_interval_ms": 0}).raise_for_status()
    return name


@pytest.fixture
def sealed(shared_server: ServerProcess, stream: str) -> None:
    _write(shared_server, stream, range(_EVENTS))
    httpx.post(f"{shared_server.url}/v1/streams/{stream}/seal").raise_for_status()


@pytest.fixture
def group(shared_server: ServerProcess, stream: str) -> Iterator[ReaderGroup]:
    with ReaderGroup(shared_server.url, stream) as one:
        one.create([stream])
        yield one


def _write(server: ServerProcess, stream: str, numbers: range) -> None:
    with Writer(server.url, stream, "writer") as writer:
        for number in numbers:
            writer.write(str(number), key=f"key-{number}", event_time=1_000 + number)


def _some(reader: Reader, number: int) -> list[int]:
    return [int(event.value) for event in islice(reader, number)]


def _rest(server: ServerProcess, group: str) -> list[int]:
    with Reader(server.url, group, "next") as reader:
        return [int(event.value) for event in reader]


@pytest.mark.usefixtures("group", "sealed")
def test_whoever_stops_in_between_and_closes_leaves_the_rest_to_others(
    shared_server: ServerProcess, stream: str
) -> None:
    with Reader(shared_server.url, stream, "one") as reader:
        found = _some(reader, 3)
    assert sorted(found + _rest(shared_server, stream)) == list(range(_EVENTS))


@pytest.mark.usefixtures("group", "sealed")
def test_whoever_stops_in_between_can_go_on_there(
    shared_server: ServerProcess, stream: str
) -> None:
    with Reader(shared_server.url, stream, "one") as reader:
        found = _some(reader, 3) + _some(reader, 4) + [int(one.value) for one in reader]
    assert sorted(found) == list(range(_EVENTS))


@pytest.mark.usefixtures("sealed")
def test_a_checkpoint_in_between_stands_behind_the_last_event_that_came(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    with Reader(shared_server.url, stream, "one") as reader:
        found = []
        for event in reader:
            found.append(int(event.value))
            if len(found) == 5:
                assert sum(reader.checkpoint("five")[stream].values()) == 5
    assert sorted(found) == list(range(_EVENTS))
    assert sum(group.position(stream).values()) == _EVENTS


def test_what_another_reader_took_over_at_a_checkpoint_is_left_to_it(
    shared_server: ServerProcess, stream: str, group: ReaderGroup
) -> None:
    _write(shared_server, stream, range(_EVENTS))
    with Reader(shared_server.url, stream, "one") as one:
        events = iter(one)
        while next(events).segment != 1:
            pass
        with Reader(shared_server.url, stream, "two") as two:
            one.checkpoint("two comes")
            assert two.read_next(wait_ms=0)[0].offset == 1
            assert list(group.describe().state.readers["one"].owned[stream]) == [0]
            _write(shared_server, stream, range(_EVENTS))
            assert next(events).segment == 0
