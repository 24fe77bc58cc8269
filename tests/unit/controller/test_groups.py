"""Reader groups over HTTP: where they start, what they refuse, and how their readers share.

What a change of the state may do is checked by `test_group_laws`, and by a model in the properties.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from controller.background import maintenance
from controller.configuration import ServeSettings
from controller.log.compaction import Compactor
from tests.patience import until, wait_until
from tests.service.api import Api, Open
from tests.service.in_process import in_process
from tests.service.problems import check_problem

NOW = 1_700_000_000_000
OF_READERS = {"heartbeat_ms": 100, "dead_after_ms": 200}


@pytest.fixture
def stream(open_shop: Open) -> Api:
    """A stream of two segments, the first of them with two events."""
    shop = open_shop(log="embedded", segments=2)
    shop.write(("a", None), ("a", None))
    return shop


@pytest.fixture
def external(open_shop: Open) -> Api:
    """A stream of two partitions with marks at `NOW` and a second later."""
    shop = open_shop(segments=2, max_segments=3, mark_resolution_ms=0)
    for time, offset in ((NOW, 10), (NOW + 1_000, 20)):
        shop.post("writers/w/note-time", time=time, position={"0": offset, "1": offset})
    return shop


def _path(shop: Api) -> str:
    return f"/v1/reader-groups/{shop.name}"


def _create(shop: Api, **options: object) -> httpx.Response:
    return shop.client.put(_path(shop), json={"streams": [shop.name], **options})


def _group(shop: Api, **options: object) -> str:
    _create(shop, **options).raise_for_status()
    return _path(shop)


def _join(shop: Api) -> None:
    shop.client.post(f"{_path(shop)}/readers/one").raise_for_status()


def _readers(shop: Api) -> list[str]:
    return list(shop.client.get(_path(shop)).json()["state"]["readers"])


def _store(shop: Api, change: Callable[[dict[str, Any]], object]) -> httpx.Response:
    """Read the state of the group, change it, and store it."""
    read = shop.client.get(f"{_path(shop)}/state")
    state = read.json()
    change(state)
    match = {"if-match": read.headers["etag"]}
    return shop.client.put(f"{_path(shop)}/state", json=state, headers=match)


def _confirm(shop: Api, position: dict[str, int]) -> httpx.Response:
    report = {"epoch": 1, "position": {shop.name: position}}
    return shop.client.post(f"{_path(shop)}/readers/one/position", json=report)


def _go_offline(shop: Api, position: dict[str, int]) -> httpx.Response:
    last = {"epoch": 1, "position": {shop.name: position}}
    return shop.client.request("DELETE", f"{_path(shop)}/readers/one", json=last)


# Where a group starts.

INVALID = (422, "invalid_request")
BEYOND = (409, "invalid_position")


@pytest.mark.parametrize(
    ("starts", "refusal", "field"),
    [
        ({"cut": {"0": 3}}, BEYOND, None),
        ({"cut": {"0": -1}}, BEYOND, None),
        ({"cut": {"2": 0}}, BEYOND, None),
        ({"start": "latest", "start_time": 5}, INVALID, "start_time"),
        ({"start_time": 1_704_110_400}, INVALID, "start_time"),
        ({"start_time": 5, "start_cut": {}}, INVALID, "start_cut"),
        ({"start_cut": {"calls/other": {"0": 0}}}, INVALID, "start_cut"),
    ],
)
def test_a_group_starts_in_one_way_and_within_its_own_streams(
    stream: Api, starts: dict[str, Any], refusal: tuple[int, str], field: str | None
) -> None:
    if "cut" in starts:
        starts = {"start_cut": {stream.name: starts["cut"]}}
    problem = check_problem(_create(stream, **starts), *refusal)
    assert problem.get("errors", [{"field": None}])[0]["field"] == field


def test_where_an_external_log_ends_is_for_the_caller_to_say_until_it_has_ended(
    external: Api,
) -> None:
    problem = check_problem(_create(external, start="latest"), *INVALID)
    assert "send start_cut" in problem["detail"]
    external.post("seal", position={"0": 20, "1": 20})
    for cut in ({"0": -1}, {"2": 0}, {"0": 21}):
        check_problem(_create(external, start_cut={external.name: cut}), *BEYOND)


def test_a_group_does_not_read_another_stream_of_the_name(stream: Api) -> None:
    group = _group(stream)
    stream.client.delete(stream.path).raise_for_status()
    stream.create(log="embedded", segments=2)
    check_problem(stream.client.post(f"{group}/readers/one"), 409, "stream_replaced")


# What readers may say.


@pytest.mark.parametrize(
    "wrong",
    [
        {"reader": {}},
        {"epochs": 1, "readers": {"one": {"epoch": 1, "owned": {}, "own": {}}}},
        {"epochs": 1, "readers": {"one/two": {"epoch": 1, "owned": {}}}},
        {"epochs": 1.0},
    ],
    ids=["an unknown field", "an unknown field of a reader", "a bad name", "a fraction"],
)
def test_a_state_that_cannot_be_is_not_stored(stream: Api, wrong: dict[str, Any]) -> None:
    path = f"{_group(stream)}/state"
    before = stream.client.get(path).json()
    check_problem(_store(stream, lambda state: state.update(wrong)), *INVALID)
    assert stream.client.get(path).json() == before


def _own(shop: Api, owned: dict[str, int], unassigned: dict[str, int]) -> httpx.Response:
    def change(state: dict[str, Any]) -> None:
        state["readers"]["one"]["owned"] = {shop.name: owned}
        state["unassigned"] = {shop.name: unassigned} if unassigned else {}

    return _store(shop, change)


def test_nobody_confirms_what_was_not_written(stream: Api) -> None:
    def beyond(answer: httpx.Response, *, tail: int) -> None:
        problem = check_problem(answer, *BEYOND)
        assert (problem["segment"], problem["offset"]) == (0, tail + 1)
        assert problem["detail"].endswith(f"the tail of {stream.name} there is {tail}")

    group = _group(stream)
    _join(stream)
    beyond(_own(stream, {"0": 3}, {"1": 0}), tail=2)
    _own(stream, {"0": 2}, {"1": 0}).raise_for_status()
    for call in (_confirm, _go_offline):
        beyond(call(stream, {"0": 3}), tail=2)
    stream.write(("a", None), ("a", None))
    _confirm(stream, {"0": 3}).raise_for_status()
    beyond(_confirm(stream, {"0": 5}), tail=4)
    window = stream.client.get(f"{group}/time-window", params={"stream": stream.name}).json()
    assert window["position"] == {"0": 3, "1": 0}


# How readers share, and who is taken offline.


def test_who_waits_takes_the_share_of_the_dead_without_being_asked_again(stream: Api) -> None:
    _group(stream, heartbeat_ms=100, dead_after_ms=300)
    _join(stream)
    _own(stream, {"0": 0, "1": 0}, {}).raise_for_status()
    with stream.reader("heir") as heir:
        assert [event.key for event in heir.read_next(wait_ms=30_000)] == ["a", "a"]
        assert _readers(stream) == ["heir"]


def test_dead_readers_go_offline_although_another_group_lost_its_stream(
    open_shop: Open, stream: Api
) -> None:
    doomed = open_shop(log="embedded")
    for shop in (doomed, stream):
        _group(shop, **OF_READERS)
        _join(shop)
    doomed.client.delete(doomed.path).raise_for_status()
    wait_until(lambda: _readers(stream) == [])


@pytest.mark.anyio
async def test_a_dead_reader_goes_offline_however_long_compaction_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = "/v1/reader-groups/calls/group"
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
        wanted = {"streams": ["calls/one"]} | OF_READERS
        (await client.put(group, json=wanted)).raise_for_status()
        (await client.post(f"{group}/readers/dead")).raise_for_status()
        (known,) = app.parts.groups
        assert list(known.state.readers) == ["dead"]
        await until(lambda: not known.state.readers)
