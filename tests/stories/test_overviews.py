"""What is asked by whoever shows all streams, writers and groups: much in few calls."""

import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest

from reader_client import ReaderGroup, StreamClient, WatermarkTimeoutError
from tests.patience import wait_until
from tests.server import Api, ServerProcess
from tidegauge.errors import UnknownWriterError
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until, version_at, wait_for

_NUMBERS = count(1)
NOW = 1_700_000_000_000
JUST_NOW_MS = 60_000


@pytest.fixture
def held(shared_server: ServerProcess) -> Iterator[Api]:
    """A stream on an external log of two partitions, in which 'slow' holds two others up."""
    with Api(shared_server.url, f"overviews-{next(_NUMBERS)}/held") as api:
        api.create(segments=2, min_writers=3)
        for writer, at, offset in (("slow", 0, 1), ("fast-2", 9_000, 5), ("fast-1", 5_000, 3)):
            api.note(writer, NOW + at, offset)
        wait_until(lambda: api.get("watermark")["watermark"] == NOW)
        yield api


def _is_now(wall_ms: int) -> bool:
    return abs(time.time() * 1_000 - wall_ms) < JUST_NOW_MS


def _listed(api: Api, **query: object) -> Any:
    params = {"limit": 1_000} | {name: str(value) for name, value in query.items()}
    answer = api.client.get("/v1/streams", params=params).raise_for_status().json()
    assert _is_now(answer["now_ms"])
    return next(one for one in answer["streams"] if one["stream"] == api.name)


def test_a_list_of_streams_says_in_short_who_holds_them(held: Api) -> None:
    found = _listed(held, brief="true", explain="true")
    explained = held.get("watermark")["explanation"]
    assert found.pop("explanation") == {
        "reason": "holding",
        "stood_ms": pytest.approx(explained["stood_ms"], abs=JUST_NOW_MS),
        "held_ms": pytest.approx(explained["held_ms"], abs=JUST_NOW_MS),
        "silent_ms": None,
        "states": explained["states"],
        "holder": "slow",
        "holder_count": 1,
        "waiting_count": 2,
        "next_expiry_ms": explained["next_expiry_ms"],
        "hint": None,
    }
    whole = httpx.get(f"{held.client.base_url}{held.path}").json()
    shared = (
        "stream",
        "stream_id",
        "created_ms",
        "watermark",
        "final",
        "revision",
        "marked_ms",
        "version",
    )
    assert found == {name: whole[name] for name in shared} | {
        "log": "external",
        "table": None,
        "follows_clock": True,
        "drops_writers": True,
        "segments": 2,
        "events": None,
    }
    assert _is_now(found["marked_ms"])
    assert _listed(held, explain="true")["explanation"]["holder"] == "slow"
    assert _listed(held)["explanation"] is None


def test_a_table_is_listed_and_asked_by_its_version(shared_server: ServerProcess) -> None:
    url = shared_server.url
    with Api(url, f"overviews-{next(_NUMBERS)}/hourly") as api:
        with pytest.raises(httpx.HTTPStatusError, match="422"):
            api.create(log="embedded", table="s3://lake/hourly")
        for control in ("\x1b[2J", "lake\n", "\x9b2J"):
            with pytest.raises(httpx.HTTPStatusError, match="422"):
                api.create(table=control)
        api.create(table="s3://lake/hourly", mark_resolution_ms=0)
        assert (_listed(api, brief="true")["version"], _listed(api)["version"]) == (None, None)
        assert version_at("hourly", NOW, url=url, stream=api.name) is None
        for time, offset in ((NOW, 33), (NOW + 1, 35)):
            api.note("nightly", time, offset)
            wait_until(partial(_stands_at, api, time))
        assert (_listed(api, brief="true")["version"], _listed(api)["version"]) == (34, 34)
        assert _listed(api, brief="true")["table"] == "s3://lake/hourly"
        found = [
            wait_for("hourly", time, timeout=20, url=url, stream=api.name)
            for time in (NOW, NOW + 1)
        ]
        assert (found, complete_until("hourly", url=url, stream=api.name)) == (
            [32, 34],
            NOW + 1,
        )
        with pytest.raises(WatermarkTimeoutError, match="nightly"):
            wait_for("hourly", NOW + 2, timeout=0, url=url, stream=api.name)
        with Api(url, f"overviews-{next(_NUMBERS)}/rides") as rides:
            rides.create(log="embedded")
            with pytest.raises(
                ValueError, match="rides are no versions of a table; create one"
            ):
                complete_until("hourly", url=url, stream=rides.name)
            with pytest.raises(ValueError, match="rides are no versions of a table"):
                version_at("hourly", NOW, url=url, stream=rides.name)
        api.post("seal", position={"0": 36})
        assert wait_for("hourly", NOW + 2, timeout=20, url=url, stream=api.name) == 35
        assert complete_until("hourly", url=url, stream=api.name) == END_OF_TIME


def _stands_at(api: Api, time: int) -> bool:
    return bool(api.get("watermark")["watermark"] == time)


def test_a_list_in_short_counts_the_events_that_are_left(shared_server: ServerProcess) -> None:
    with Api(shared_server.url, f"overviews-{next(_NUMBERS)}/log") as api:
        api.create(log="embedded")
        lines = '{"key": "a", "value": "1"}\n' * 5
        head = {"content-type": "application/x-ndjson"}
        api.client.post(f"{api.path}/events", content=lines, headers=head).raise_for_status()
        assert _listed(api, brief="true")["events"] == 5
        api.post("truncate", cut={"0": 2})
        assert _listed(api, brief="true")["events"] == 3


def test_the_slowest_writers_come_first_and_those_before_all_that_stand_nowhere(
    held: Api,
) -> None:
    held.note("gone", NOW + 1, 1)
    held.post("writers/gone/leave", time=NOW + 2)
    answer = held.get("writers", order="slowest", positions="false")
    assert [one["writer"] for one in answer["writers"]] == ["slow", "fast-1", "fast-2"]
    assert [one["position"] for one in answer["writers"]] == [None] * 3
    assert answer["cursor"] is None
    assert _is_now(answer["now_ms"])
    limited = held.get("writers", order="slowest", limit=2)["writers"]
    assert [one["position"] for one in limited] == [{"0": 1}, {"0": 3}]
    some = held.get("writers", order="slowest", prefix="fast-")["writers"]
    assert [one["writer"] for one in some] == ["fast-1", "fast-2"]
    left = held.get("writers", order="slowest", state="left")["writers"]
    assert [one["writer"] for one in left] == ["gone"]
    refused = held.client.get(f"{held.path}/writers?order=slowest&cursor=YQ==")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")


def test_writers_are_found_by_name_and_by_how_it_begins(held: Api) -> None:
    assert [one["writer"] for one in held.get("writers", prefix="fast")["writers"]] == [
        "fast-1",
        "fast-2",
    ]
    first = held.get("writers", prefix="fast", limit=1)
    second = held.get("writers", prefix="fast", limit=1, cursor=first["cursor"])
    assert [one["writer"] for one in second["writers"]] == ["fast-2"]
    assert second["cursor"] is None
    one = held.get("writers/slow")
    assert (one["writer"], one["stand"], one["state"]) == ("slow", NOW, "behind")
    assert (one["watermark"], one["stream_id"]) == (NOW, held.get("watermark")["stream_id"])


def test_the_client_finds_writers_and_when_marks_were_made(
    held: Api, shared_server: ServerProcess
) -> None:
    with StreamClient(shared_server.url, held.name) as client:
        slowest = client.slowest_writers(2)
        assert [(one.writer, one.position) for one in slowest] == [
            ("slow", None),
            ("fast-1", None),
        ]
        assert [one.writer for one in client.writers(prefix="fast")] == ["fast-1", "fast-2"]
        assert client.writer("slow").stand == NOW
        with pytest.raises(UnknownWriterError):
            client.writer("nobody")
        (mark,) = client.marks()
        assert mark.marked_ms is not None
        assert _is_now(mark.marked_ms)
        assert client.describe().marked_ms == mark.marked_ms


def test_what_to_do_and_how_to_type_it_stand_apart_from_the_facts(
    shared_server: ServerProcess,
) -> None:
    with Api(shared_server.url, f"overviews-{next(_NUMBERS)}/begins") as api:
        api.create()
        api.post("writers/slow/register")
        api.note("fast", NOW, 1)
        explained = api.get("watermark")["explanation"]
    assert (
        "holds back the first mark while 'fast' waits; it is dropped" in explained["sentence"]
    )
    assert explained["cure"] == (
        "have it note a time or leave, or expire it (its events below the watermark are then "
        "late)"
    )
    assert explained["command"] == f"tidegauge expire {api.name} slow"


def test_while_a_stream_moves_there_is_nothing_to_do(held: Api) -> None:
    explained = held.get("watermark")["explanation"]
    assert explained["sentence"].startswith("Nothing to do: the watermark ")
    assert ": last is writer 'slow' (9s of event time behind" in explained["sentence"]
    assert (explained["cure"], explained["command"]) == (None, None)


def test_a_group_tells_its_windows_with_what_keeps_them_back(
    held: Api, shared_server: ServerProcess
) -> None:
    other = held.name.replace("held", "other")
    with Api(shared_server.url, other) as api:
        api.create()
        api.note("w", NOW + 7, 4)
    name = held.name.replace("held", "group")
    path = f"/v1/reader-groups/{name}"
    held.client.put(path, json={"streams": [held.name, other]}).raise_for_status()
    found = held.client.get(f"{path}/time-window").raise_for_status().json()
    assert [one["stream"] for one in found["windows"]] == [held.name, other]
    assert [one["next_mark"]["cut"] for one in found["windows"]] == [{"0": 5, "1": 0}, {"0": 4}]
    assert (found["lower"], found["upper"]) == (None, NOW + 9_000)
    assert _is_now(found["now_ms"])
    single = held.client.get(f"{path}/time-window", params={"stream": other}).json()
    assert single == found["windows"][1]
    with ReaderGroup(shared_server.url, name) as group:
        assert group.windows().windows[1].next_mark is not None
        assert group.get_time_window().upper == NOW + 9_000
    listed = _group_listed(held, name, windows="true")
    assert listed["windows"] == found["windows"]
    assert _group_listed(held, name)["windows"] is None
    held.client.delete(f"/v1/streams/{other}").raise_for_status()
    left = _group_listed(held, name, windows="true")["windows"]
    assert [one["stream"] for one in left] == [held.name]
    whole = held.client.get(f"{path}/time-window").raise_for_status().json()
    assert (whole["windows"], whole["upper"]) == (left, left[0]["upper"])
    held.client.delete(held.path).raise_for_status()
    nothing = held.client.get(f"{path}/time-window").raise_for_status().json()
    assert (nothing["windows"], nothing["lower"], nothing["upper"]) == ([], None, None)


def _group_listed(api: Api, name: str, **query: str) -> Any:
    answer = api.client.get("/v1/reader-groups", params={"limit": "1000"} | query).json()
    assert _is_now(answer["now_ms"])
    return next(one for one in answer["groups"] if one["group"] == name)


def test_readers_tell_when_they_were_heard_and_when_they_read_on(held: Api) -> None:
    path = f"/v1/reader-groups/{held.name}"
    held.client.put(path, json={"streams": [held.name]}).raise_for_status()
    held.client.post(f"{path}/readers/one").raise_for_status()
    read = held.client.get(f"{path}/state")
    owned = {held.name: {"0": 0, "1": 0}}
    state = read.json() | {"unassigned": {}, "readers": {"one": {"epoch": 1, "owned": owned}}}
    match = {"if-match": read.headers["etag"]}
    held.client.put(f"{path}/state", json=state, headers=match).raise_for_status()

    def reader() -> Any:
        (one,) = held.client.get(path).json()["readers"]
        return one

    assert reader() | {"silent_ms": 0} == {
        "reader": "one",
        "epoch": 1,
        "segments": 2,
        "silent_ms": 0,
        "advanced_ms": None,
    }
    report = {"epoch": 1, "position": {held.name: {"0": 1}}}
    held.client.post(f"{path}/readers/one/position", json=report).raise_for_status()
    advanced = reader()["advanced_ms"]
    assert 0 <= advanced < JUST_NOW_MS
    beat = {"epoch": 1}
    held.client.post(f"{path}/readers/one/heartbeat", json=beat).raise_for_status()
    assert reader()["advanced_ms"] >= advanced
    held.client.post(f"{path}/readers/one").raise_for_status()  # another process
    assert reader()["advanced_ms"] is None


def test_segments_tell_when_they_were_opened_and_sealed(shared_server: ServerProcess) -> None:
    with Api(shared_server.url, f"overviews-{next(_NUMBERS)}/scaled") as api:
        created = api.create(log="embedded")["topology"]["segments"]
        assert _is_now(created[0]["opened_ms"])
        assert created[0]["sealed_ms"] is None
        api.post("scale", seal=[0], ranges=[[0, 0.5], [0.5, 1]])
        api.post("seal")
        first, second, _ = _listed(api)["topology"]["segments"]
        assert first["opened_ms"] == created[0]["opened_ms"]
        assert first["opened_ms"] <= first["sealed_ms"] == second["opened_ms"]
        assert second["opened_ms"] <= second["sealed_ms"]


def test_marks_tell_when_they_were_made_and_the_list_what_time_it_is(held: Api) -> None:
    held.note("slow", NOW + 4_000, 2)
    wait_until(lambda: held.get("watermark")["watermark"] == NOW + 4_000)
    listed = held.get("marks")
    times = [one["marked_ms"] for one in listed["marks"]]
    assert times == sorted(times)
    assert _is_now(times[0])
    assert listed["now_ms"] >= times[-1] == held.get("watermark")["mark"]["marked_ms"]
    assert held.get("marks", after=1)["marks"][0]["marked_ms"] == times[-1]
