"""What a reader group refuses over HTTP, and what it survives."""

import asyncio
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.background import maintenance
from controller.configuration import ServeSettings
from controller.log.compaction import Compactor
from tests.patience import PATIENCE_S, until
from tests.server import Api, ServerProcess
from tests.service.in_process import in_process

_NUMBERS = count(1)
_GROUP = "/v1/reader-groups/calls/group"
NOW = 1_700_000_000_000


@pytest.fixture
def stream(shared_server: ServerProcess) -> Iterator[Api]:
    """Make an embedded stream of two segments, the first of them with two events."""
    with Api(shared_server.url, f"calls/stream-{next(_NUMBERS)}") as api:
        api.create(log="embedded", segments=2)
        _append(api)
        yield api


def _append(api: Api) -> None:
    api.client.post(
        f"{api.path}/events",
        content=b'{"key": "a", "value": "1"}\n{"key": "a", "value": "2"}\n',
        headers={"content-type": "application/x-ndjson"},
    ).raise_for_status()


def _name(api: Api) -> str:
    return api.path.removeprefix("/v1/streams/")


def _create(api: Api, **options: object) -> httpx.Response:
    path = f"{_GROUP}-{next(_NUMBERS)}"
    return api.client.put(path, json={"streams": [_name(api)], **options})


def _group(api: Api, **options: object) -> str:
    answer = _create(api, **options).raise_for_status()
    return f"/v1/reader-groups/{answer.json()['group']}"


@pytest.mark.parametrize("cut", [{"0": 3}, {"0": -1}, {"2": 0}])
def test_a_group_cannot_start_where_its_stream_is_not(stream: Api, cut: dict[str, int]) -> None:
    answer = _create(stream, start_cut={_name(stream): cut})
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_position")


def test_a_bare_position_is_refused_with_the_streams_that_it_lacks(stream: Api) -> None:
    answer = _create(stream, start_cut={"0": 1})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"] == [
        {
            "field": "start_cut",
            "message": '{"0": 1} is not a position for each stream; send an object such as '
            '{"scope/stream": {"0": 40, "1": 12}}',
        }
    ]


@pytest.mark.parametrize(
    ("starts", "field"),
    [
        ({"start": "latest", "start_time": 5}, "start_time"),
        ({"start_time": 1_704_110_400}, "start_time"),
        ({"start_time": 5, "start_cut": {}}, "start_cut"),
        ({"start_cut": {"calls/other": {"0": 0}}}, "start_cut"),
    ],
)
def test_a_group_starts_in_one_way_and_in_its_own_streams(
    stream: Api, starts: dict[str, Any], field: str
) -> None:
    answer = _create(stream, **starts)
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert answer.json()["errors"][0]["field"] == field


def test_readers_cannot_be_dead_before_they_are_heard_of(stream: Api) -> None:
    answer = _create(stream, heartbeat_ms=5_000, dead_after_ms=1_000)
    assert answer.status_code == 422
    assert "heartbeat_ms, 5000: make it longer" in answer.json()["detail"]


def test_dead_readers_go_offline_although_another_group_lost_its_stream(
    shared_server: ServerProcess, stream: Api
) -> None:
    with Api(shared_server.url, f"calls/stream-{next(_NUMBERS)}") as doomed:
        doomed.create(log="embedded")
        orphan = _group(doomed, heartbeat_ms=100, dead_after_ms=200)
        doomed.client.post(f"{orphan}/readers/one").raise_for_status()
        doomed.client.delete(doomed.path).raise_for_status()
    group = _group(stream, heartbeat_ms=100, dead_after_ms=200)
    stream.client.post(f"{group}/readers/one").raise_for_status()
    deadline = time.monotonic() + PATIENCE_S
    while stream.client.get(group).json()["state"]["readers"]:
        assert time.monotonic() < deadline, "the dead reader is still there"
        time.sleep(0.05)


def test_a_dead_reader_goes_offline_however_long_compaction_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scene() -> None:
        compacting = asyncio.Event()

        async def compact(*_: object) -> None:
            compacting.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(maintenance, "_PERIOD_S", 0.01)
        monkeypatch.setattr(Compactor, "compact", compact)
        settings = ServeSettings(database_url=f"sqlite:///{tmp_path}/one.db")
        async with in_process(settings) as (app, client):
            (await client.put("/v1/streams/calls/one", json={})).raise_for_status()
            await compacting.wait()
            wanted = {"streams": ["calls/one"], "heartbeat_ms": 100, "dead_after_ms": 200}
            (await client.put(_GROUP, json=wanted)).raise_for_status()
            (await client.post(f"{_GROUP}/readers/dead")).raise_for_status()
            (group,) = app.parts.groups
            assert list(group.state.readers) == ["dead"]
            await until(lambda: not group.state.readers)

    asyncio.run(scene())


def test_a_group_does_not_read_another_stream_of_the_name(stream: Api) -> None:
    group = _group(stream)
    stream.client.delete(stream.path).raise_for_status()
    stream.create(log="embedded", segments=2)
    answer = stream.client.post(f"{group}/readers/one")
    assert (answer.status_code, answer.json()["code"]) == (409, "stream_replaced")


def _with_unknown_field(state: dict[str, Any]) -> None:
    state["reader"] = {}


def _with_unknown_field_of_a_reader(state: dict[str, Any]) -> None:
    state["epochs"] = 1
    state["readers"]["one"] = {"epoch": 1, "owned": {}, "own": {}}


def _with_a_bad_name(state: dict[str, Any]) -> None:
    state["epochs"] = 1
    state["readers"]["one/two"] = {"epoch": 1, "owned": {}}


def _with_a_fraction(state: dict[str, Any]) -> None:
    state["epochs"] = 1.0


@pytest.mark.parametrize(
    "change",
    [
        _with_unknown_field,
        _with_unknown_field_of_a_reader,
        _with_a_bad_name,
        _with_a_fraction,
    ],
)
def test_a_state_that_cannot_be_is_not_stored(stream: Api, change: Any) -> None:
    path = _group(stream) + "/state"
    read = stream.client.get(path)
    state = read.json()
    change(state)
    answer = stream.client.put(path, json=state, headers={"if-match": read.headers["etag"]})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert stream.client.get(path).json() == read.json()


def test_a_zombie_does_not_take_its_successor_offline(stream: Api) -> None:
    reader = _group(stream) + "/readers/one"
    for _ in range(2):
        stream.client.post(reader).raise_for_status()
    refused = stream.client.request("DELETE", reader, json={"epoch": 1})
    assert (refused.status_code, refused.json()["code"]) == (409, "reader_fenced")
    assert refused.json()["epoch"] == 2
    stream.client.request("DELETE", reader, json={"epoch": 2}).raise_for_status()


def test_a_reader_gives_no_segment_back_that_it_does_not_own(stream: Api) -> None:
    group, name = _group(stream), _name(stream)
    stream.client.post(f"{group}/readers/one").raise_for_status()
    last = {"epoch": 1, "position": {name: {"0": 0}}}
    refused = stream.client.request("DELETE", f"{group}/readers/one", json=last)
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid_transition")
    assert refused.json()["detail"].startswith(f"reader 'one' does not own segment 0 of {name}")
    assert list(stream.client.get(group).json()["state"]["readers"]) == ["one"]


@pytest.fixture
def external(shared_server: ServerProcess) -> Iterator[Api]:
    """Make a stream of two partitions with marks at `NOW` and a second later."""
    with Api(shared_server.url, f"calls/stream-{next(_NUMBERS)}") as api:
        api.create(segments=2, max_segments=3, mark_resolution_ms=0)
        for time, offset in ((NOW, 10), (NOW + 1_000, 20)):
            position = {"0": offset, "1": offset}
            api.post("writers/w/note-time", time=time, position=position)
        yield api


def test_consumers_of_an_external_log_get_a_time_window(external: Api) -> None:
    group, name = _group(external), _name(external)
    external.client.post(f"{group}/readers/one").raise_for_status()
    read = external.client.get(f"{group}/state")
    state = read.json() | {"unassigned": {}}
    state["readers"]["one"]["owned"] = {name: {"0": 0, "1": 0}}
    match = {"if-match": read.headers["etag"]}
    external.client.put(f"{group}/state", json=state, headers=match).raise_for_status()
    window = []
    for position in ({"0": 10}, {"1": 19}, {"0": 20, "1": 20}, {"0": 10**12}):
        report = {"epoch": 1, "position": {name: position}}
        answer = external.client.post(f"{group}/readers/one/position", json=report)
        answer.raise_for_status()
        found = external.client.get(f"{group}/time-window", params={"stream": name}).json()
        window.append((found["lower"], found["upper"]))
    assert window == [(None, NOW), (NOW, NOW + 1_000), (NOW + 1_000, None), (NOW + 1_000, None)]


@pytest.mark.parametrize(
    ("starts", "position"),
    [
        ({}, {"0": 0, "1": 0}),
        ({"start_time": NOW + 1_000}, {"0": 10, "1": 10}),
        ({"start_cut": {"0": 10**12}}, {"0": 10**12, "1": 0}),
    ],
)
def test_a_group_on_an_external_log_starts_at_a_time_or_a_cut(
    external: Api, starts: dict[str, Any], position: dict[str, int]
) -> None:
    name = _name(external)
    if "start_cut" in starts:
        starts = {"start_cut": {name: starts["start_cut"]}}
    answer = _create(external, **starts).raise_for_status()
    assert answer.json()["state"]["unassigned"] == {name: position}


@pytest.mark.parametrize("cut", [{"0": -1}, {"2": 0}, {"0": 21}])
def test_a_group_starts_within_an_external_log_that_has_ended(
    external: Api, cut: dict[str, int]
) -> None:
    external.post("seal", position={"0": 20, "1": 20})
    answer = _create(external, start_cut={_name(external): cut})
    assert (answer.status_code, answer.json()["code"]) == (409, "invalid_position")


def test_where_an_external_log_ends_is_for_the_caller_to_say(external: Api) -> None:
    answer = _create(external, start="latest")
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_request")
    assert "send start_cut" in answer.json()["detail"]


def _beyond_the_tail(answer: httpx.Response, api: Api, *, tail: int) -> None:
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (409, "invalid_position")
    assert (problem["segment"], problem["offset"]) == (0, tail + 1)
    assert problem["detail"].endswith(f"the tail of {_name(api)} there is {tail}")


def test_nobody_confirms_what_was_not_written(stream: Api) -> None:
    group, name = _group(stream), _name(stream)
    reader = f"{group}/readers/one"
    stream.client.post(reader).raise_for_status()
    read = stream.client.get(f"{group}/state")
    state = read.json()
    owned, unassigned = {"0": 3}, {"1": 0}
    state["readers"]["one"]["owned"] = {name: owned}
    state["unassigned"] = {name: unassigned}
    match = {"if-match": read.headers["etag"]}
    written = stream.client.put(f"{group}/state", json=state, headers=match)
    _beyond_the_tail(written, stream, tail=2)
    owned["0"] = 2
    stream.client.put(f"{group}/state", json=state, headers=match).raise_for_status()
    report = {"epoch": 1, "position": {name: {"0": 3}}}
    _beyond_the_tail(stream.client.post(f"{reader}/position", json=report), stream, tail=2)
    left = stream.client.request("DELETE", reader, json=report)
    _beyond_the_tail(left, stream, tail=2)
    _append(stream)
    stream.client.post(f"{reader}/position", json=report).raise_for_status()
    report["position"] = {name: {"0": 5}}
    _beyond_the_tail(stream.client.post(f"{reader}/position", json=report), stream, tail=4)
    window = stream.client.get(f"{group}/time-window", params={"stream": name}).json()
    assert window["position"] == {"0": 3, "1": 0}
