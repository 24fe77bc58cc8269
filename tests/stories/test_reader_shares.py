"""Readers of a group share its segments evenly again after any change, and begin where it says."""

from collections.abc import Callable, Coroutine
from itertools import count
from typing import Any

import pytest

from reader_client import (
    AsyncReader,
    AsyncReaderGroup,
    AsyncStreamClient,
    Reader,
    ReaderGroup,
    StreamClient,
    TimeWindow,
)
from tests.patience import wait_until
from tests.server import Api, ServerProcess
from tests.service.shares import shares
from tests.simulation.quiet import QuietWorld

pytestmark = pytest.mark.only_on("sqlite", "groups are the same on each database")

_NUMBERS = count(1)
NOW = 1_700_000_000_000


HEARTBEAT_S = 0.1


def test_shares_are_even_after_one_heartbeat_and_one_read_of_each(world: QuietWorld) -> None:
    url, name = world.controllers[0].url, "shares/stream"
    client, group = AsyncStreamClient(url, name), AsyncReaderGroup(url, name)
    world.run(client.create(segments=4))
    world.run(group.create([name], heartbeat_ms=int(HEARTBEAT_S * 1_000)))
    readers: dict[str, AsyncReader] = {}

    def owned() -> dict[str, int]:
        state = world.run(group.describe()).state.readers
        return {one: sum(map(len, reader.owned.values())) for one, reader in state.items()}

    async def join(one: str) -> None:
        readers[one] = AsyncReader(url, name, one)
        await readers[one].open()

    after = {}
    changes: dict[str, Callable[[], Coroutine[Any, Any, object]]] = {
        "a joins": lambda: join("a"),
        "b joins": lambda: join("b"),
        "c joins": lambda: join("c"),
        "0 is split": lambda: client.split(0, 3),
        "1 and 2 are merged": lambda: client.merge([1, 2]),
        "b leaves": lambda: readers.pop("b").close(),
    }
    for change, happen in changes.items():
        world.run(happen())
        world.sleep(1.5 * HEARTBEAT_S)
        shares = owned()
        for one in sorted(readers, key=lambda one: -shares.get(one, 0)):
            assert world.run(readers[one].read_next(wait_ms=0)) == []
        after[change] = sorted(owned().values())
    assert after == {
        "a joins": [4],
        "b joins": [2, 2],
        "c joins": [1, 1, 2],
        "0 is split": [2, 2, 2],
        "1 and 2 are merged": [1, 2, 2],
        "b leaves": [2, 3],
    }
    for reader in readers.values():
        world.run(reader.close())


def test_who_waits_takes_its_share_without_being_asked_again(
    shared_server: ServerProcess,
) -> None:
    name = f"shares/stream-{next(_NUMBERS)}"
    with (
        ReaderGroup(shared_server.url, name) as group,
        Api(shared_server.url, name) as api,
    ):
        api.create(log="embedded", segments=2)
        group.create([name], heartbeat_ms=100, dead_after_ms=300)
        dead = f"/v1/reader-groups/{name}/readers/dead"
        epoch = api.client.post(dead).raise_for_status().json()["epoch"]
        state = api.client.get(f"/v1/reader-groups/{name}/state")
        document = state.json() | {"unassigned": {}}
        document["readers"]["dead"] = {"epoch": epoch, "owned": {name: {"0": 0, "1": 0}}}
        api.client.put(
            f"/v1/reader-groups/{name}/state",
            json=document,
            headers={"if-match": state.headers["etag"]},
        ).raise_for_status()
        _append(api, ("k", NOW))
        with Reader(shared_server.url, name, "heir") as heir:
            assert [one.key for one in heir.read_next(wait_ms=30_000)] == ["k"]
            assert shares(group) == {"heir": 2}


@pytest.mark.parametrize(
    ("start", "position", "read"),
    [
        ({}, {0: 0}, ["a", "b", "c", "d"]),
        ({"start": "latest"}, {0: 2, 1: 1, 2: 1}, []),
        ({"start_time": NOW + 1_500}, {0: 2, 1: 0, 2: 0}, ["c", "d"]),
        ({"start_cut": {0: 1}}, {0: 1}, ["b", "c", "d"]),
        ({"start_cut": {1: 1}}, {0: 2, 1: 1, 2: 0}, ["d"]),
    ],
)
def test_a_group_starts_where_it_is_told_in_a_stream_that_was_scaled(
    shared_server: ServerProcess,
    start: dict[str, Any],
    position: dict[int, int],
    read: list[str],
) -> None:
    name = f"shares/stream-{next(_NUMBERS)}"
    with (
        Api(shared_server.url, name) as api,
        StreamClient(shared_server.url, name) as client,
        ReaderGroup(shared_server.url, name) as group,
    ):
        api.create(log="embedded")
        _append(api, ("a", NOW), ("b", NOW + 1_000))
        client.split(0)
        _append(api, ("c", NOW + 2_000), ("d", NOW + 3_000))
        if "start_cut" in start:
            start = {"start_cut": {name: start["start_cut"]}}
        group.create([name], **start)
        assert group.position(name) == position
        found: list[str] = []
        with Reader(shared_server.url, name, "one") as reader:
            wait_until(lambda: not _read(reader, found))
        assert sorted(found) == read


def test_the_window_over_several_streams_tells_what_was_read_in_all_of_them(
    shared_server: ServerProcess,
) -> None:
    names = [f"shares/stream-{next(_NUMBERS)}" for _ in range(2)]
    with (
        Api(shared_server.url, names[0]) as one,
        Api(shared_server.url, names[1]) as two,
        ReaderGroup(shared_server.url, names[0]) as group,
    ):
        for api in (one, two):
            api.create(log="embedded", mark_resolution_ms=0)
        for api, time in ((one, NOW), (one, NOW + 5_000), (two, NOW + 2_000)):
            _append(api, ("k", time))
            api.post("writers/w/note-time", time=time + 1_000)
        group.create(names)
        windows = [group.get_time_window()]
        with Reader(shared_server.url, names[0], "reader") as reader:
            while reader.read_next(wait_ms=0, limit=1):
                windows.append(group.get_time_window())
            windows.append(reader.get_time_window())
        assert windows[0] == TimeWindow(None, NOW + 3_000)
        assert windows[-1] == TimeWindow(NOW + 3_000, None)
        assert group.get_time_window(names[0]) == TimeWindow(NOW + 6_000, None)


def _read(reader: Reader, found: list[str]) -> bool:
    events = reader.read_next(wait_ms=0)
    found += [one.key for one in events]
    return bool(events)


def _append(api: Api, *events: tuple[str, int]) -> None:
    lines = [f'{{"key": "{key}", "event_time": {time}, "value": ""}}' for key, time in events]
    api.client.post(
        f"{api.path}/events",
        content="\n".join(lines),
        headers={"content-type": "application/x-ndjson"},
    ).raise_for_status()
