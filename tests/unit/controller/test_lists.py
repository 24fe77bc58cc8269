"""Lists and overviews: what each entry says, in which order, on pages that nobody waits for long."""

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import httpx
import pytest

from controller.http.routing import write_cursor
from tests.service.api import Api
from tests.service.in_process import Service
from tidegauge.names import StreamName

_NUMBERS = count(1)
NOW = 1_700_000_000_000
JUST_NOW_MS = 60_000
NAMES = ["a/Z", "a/a", "a-b/written", "b/external", "b/new", "b/sealed"]
LINES = "\n".join(f'{{"key": "k{at}", "event_time": {NOW}, "value": "v"}}' for at in range(9))
NDJSON = {"content-type": "application/x-ndjson"}
SEGMENTS = 5_000
SEVEN = [f"n{number}" for number in range(7)]
NewApi = Callable[[str], Api]


@pytest.fixture(scope="module")
def api_of(service: Service) -> NewApi:
    """Make clients of one service, each for a stream."""
    return partial(Api, service.url, transport=service)


@pytest.fixture(scope="module")
def client(api_of: NewApi) -> httpx.Client:
    """A service with streams that are written, external, new and sealed."""
    for name in NAMES:
        api_of(name).create(log="external" if name == "b/external" else "embedded", segments=3)
    for api in map(api_of, ("a-b/written", "b/sealed")):
        path = f"{api.path}/events"
        for _ in range(2):
            api.client.post(path, content=LINES, headers=NDJSON).raise_for_status()
    for at in (1, 2):
        api_of("b/external").note("w", NOW + at, at)
    sealed = api_of("b/sealed")
    sealed.post("seal")
    return sealed.client


@pytest.fixture
def held(api_of: NewApi) -> Api:
    """A stream on an external log of two partitions, in which 'slow' holds two others up."""
    api = api_of(f"held/{next(_NUMBERS)}")
    api.create(segments=2, min_writers=3)
    for writer, at, offset in (("slow", 0, 1), ("fast-2", 9_000, 5), ("fast-1", 5_000, 3)):
        api.note(writer, NOW + at, offset)
    return api


def _is_now(wall_ms: int) -> bool:
    return abs(time.time() * 1_000 - wall_ms) < JUST_NOW_MS


def _streams(client: httpx.Client, **query: str) -> list[Any]:
    answer = client.get("/v1/streams", params=query).raise_for_status().json()
    assert _is_now(answer["now_ms"])
    listed: list[Any] = answer["streams"]
    return listed


def _listed(api: Api, **query: str) -> Any:
    streams = _streams(api.client, limit="1000", **query)
    return next(stream for stream in streams if stream["stream"] == api.name)


def _pages(client: httpx.Client, path: str, *, after: str, **query: str) -> list[Any]:
    """Read a list from a name to its end, page by page; return the entries by their names."""
    pages, cursor = [], write_cursor(after)
    kind = {"/v1/streams": "stream", "/v1/reader-groups": "group"}.get(path, "writer")
    while cursor is not None:
        params = {"limit": "1000", "cursor": cursor} | query
        page = client.get(path, params=params).raise_for_status().json()
        pages.append({entry[kind]: entry for entry in page[f"{kind}s"]})
        cursor = page["cursor"]
    return pages


def test_a_list_says_what_the_descriptions_say(client: httpx.Client) -> None:
    by_name = {one["stream"]: one for one in _streams(client) if one["stream"] in NAMES}
    assert list(by_name) == sorted(NAMES, key=StreamName.parse)
    first, second = _pages(client, "/v1/streams", after="A/a", brief="true", limit="4")[:2]
    assert [*first, *second][:6] == list(by_name)
    for name, stream in by_name.items():
        assert stream == client.get(f"/v1/streams/{name}").json()
    assert sum(by_name["a-b/written"]["tail"].values()) == 18
    assert by_name["a/a"]["tail"] == {"0": 0, "1": 0, "2": 0}
    assert (by_name["a/a"]["watermark"], by_name["a/a"]["revision"]) == (None, 0)
    external = by_name["b/external"]
    assert (external["watermark"], external["tail"]) == (NOW + 2, None)
    assert [name for name, stream in by_name.items() if stream["final"]] == ["b/sealed"]


def test_a_page_of_writers_has_25_000_entries_of_positions_at_most(api_of: NewApi) -> None:
    api = api_of("many/segments")
    api.create(segments=SEGMENTS)
    everywhere = {str(number): 1 for number in range(SEGMENTS)}
    for name in SEVEN:
        api.post(f"writers/{name}/note-time", time=NOW, position=everywhere)
    pages = _pages(api.client, f"{api.path}/writers", after="a")
    assert [list(page) for page in pages] == [SEVEN[:5], SEVEN[5:]]


def test_a_page_of_groups_has_25_000_segments_at_most(api_of: NewApi) -> None:
    api = api_of("read/many")
    api.create(log="embedded", segments=SEGMENTS)
    names = [f"read/{name}" for name in SEVEN]
    for name in names:
        group = {"streams": [api.name]}
        api.client.put(f"/v1/reader-groups/{name}", json=group).raise_for_status()
    pages = _pages(api.client, "/v1/reader-groups", after="read/a")
    assert [list(page) for page in pages] == [names[:5], names[5:]]


def test_a_page_of_streams_has_5_000_segments_at_most_or_one_stream(api_of: NewApi) -> None:
    for name, segments in (("a", 3_000), ("b", 2_000), ("c", 5_001), ("d", 4_999), ("e", 1)):
        api_of(f"wide/{name}").create(segments=segments)
    pages = _pages(api_of("wide/a").client, "/v1/streams", after="wid/z")
    assert [list(page) for page in pages[:3]] == [
        ["wide/a", "wide/b"],
        ["wide/c"],
        ["wide/d", "wide/e"],
    ]


def test_a_list_of_streams_says_in_short_who_holds_them(held: Api) -> None:
    listed = _listed(held, brief="true", explain="true")
    explained = held.get("watermark")["explanation"]
    assert listed.pop("explanation") == {
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
    assert listed.pop("judged") == held.get("watermark")["judged"]
    whole = held.client.get(held.path).json()
    assert listed == {name: whole[name] for name in listed.keys() & whole.keys()} | {
        "log": "external",
        "table": None,
        "follows_clock": True,
        "drops_writers": True,
        "segments": 2,
        "events": None,
    }
    assert _is_now(listed["marked_ms"])
    assert _listed(held, explain="true")["explanation"]["holder"] == "slow"
    assert _listed(held)["explanation"] is None


def test_a_list_in_short_counts_the_events_that_are_left(api_of: NewApi) -> None:
    api = api_of("held/log")
    api.create(log="embedded")
    lines = '{"key": "a", "value": "1"}\n' * 5
    api.client.post(f"{api.path}/events", content=lines, headers=NDJSON).raise_for_status()
    assert _listed(api, brief="true")["events"] == 5
    api.post("truncate", cut={"0": 2})
    assert _listed(api, brief="true")["events"] == 3


def test_a_table_is_listed_with_the_version_up_to_which_it_is_complete(api_of: NewApi) -> None:
    api = api_of("held/hourly")
    api.create(table="s3://lake/hourly", mark_resolution_ms=0)
    briefly = partial(_listed, api, brief="true")
    assert (briefly()["version"], _listed(api)["version"]) == (None, None)
    for at, offset in ((NOW, 33), (NOW + 1, 35)):
        api.note("nightly", at, offset)
    assert (briefly()["version"], _listed(api)["version"]) == (34, 34)
    assert briefly()["table"] == "s3://lake/hourly"


WRITERS: dict[str, tuple[dict[str, object], list[str]]] = {
    "slowest": ({"order": "slowest"}, ["slow", "fast-1", "fast-2"]),
    "two slowest": ({"order": "slowest", "limit": 2}, ["slow", "fast-1"]),
    "slowest of a prefix": ({"order": "slowest", "prefix": "fast-"}, ["fast-1", "fast-2"]),
    "slowest of a state": ({"order": "slowest", "state": "left"}, ["gone"]),
    "of a state": ({"state": "behind"}, ["slow"]),
    "of a prefix": ({"prefix": "fast"}, ["fast-1", "fast-2"]),
}


@pytest.mark.parametrize(("query", "expected"), WRITERS.values(), ids=WRITERS)
def test_writers_are_listed(held: Api, query: dict[str, object], expected: list[str]) -> None:
    held.note("gone", NOW + 1, 1)
    held.post("writers/gone/leave", time=NOW + 2)
    answer = held.get("writers", **query)
    assert [writer["writer"] for writer in answer["writers"]] == expected
    assert answer["cursor"] is None
    assert _is_now(answer["now_ms"])
    assert all(writer["position"] for writer in answer["writers"])
    without = held.get("writers", **query, positions="false")["writers"]
    assert [(writer["writer"], writer["position"]) for writer in without] == [
        (name, None) for name in expected
    ]


def test_writers_are_paged_by_name_not_by_slowness(held: Api) -> None:
    first = held.get("writers", prefix="fast", limit=1)
    second = held.get("writers", prefix="fast", limit=1, cursor=first["cursor"])
    assert [writer["writer"] for writer in second["writers"]] == ["fast-2"]
    assert second["cursor"] is None
    refused = held.client.get(f"{held.path}/writers?order=slowest&cursor=YQ==")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "cursor")


def _group_listed(api: Api, name: str, **query: str) -> Any:
    answer = api.client.get("/v1/reader-groups", params={"limit": "1000"} | query).json()
    assert _is_now(answer["now_ms"])
    return next(group for group in answer["groups"] if group["group"] == name)


def test_a_group_has_its_windows_with_what_keeps_them_back(held: Api, api_of: NewApi) -> None:
    other = api_of("held/other")
    other.create()
    other.note("w", NOW + 7, 4)
    name, both = held.name, [held.name, other.name]
    path = f"/v1/reader-groups/{name}"
    held.client.put(path, json={"streams": both}).raise_for_status()

    def joint() -> Any:
        return held.client.get(f"{path}/time-window").raise_for_status().json()

    windows = joint()["windows"]
    assert [window["stream"] for window in windows] == both
    cuts = [{"0": 5, "1": 0}, {"0": 4}]
    assert [window["next_mark"]["cut"] for window in windows] == cuts
    assert (joint()["lower"], joint()["upper"]) == (None, NOW + 9_000)
    single = held.client.get(f"{path}/time-window", params={"stream": other.name}).json()
    assert single == windows[1]
    assert _group_listed(held, name, windows="true")["windows"] == windows
    assert _group_listed(held, name)["windows"] is None
    other.client.delete(other.path).raise_for_status()
    assert (joint()["windows"], joint()["upper"]) == ([windows[0]], windows[0]["upper"])
    assert _group_listed(held, name, windows="true")["windows"] == [windows[0]]
    held.client.delete(held.path).raise_for_status()
    assert (joint()["windows"], joint()["lower"], joint()["upper"]) == ([], None, None)


def test_readers_show_how_long_ago_they_read_on(held: Api) -> None:
    path = f"/v1/reader-groups/{held.name}"
    held.client.put(path, json={"streams": [held.name]}).raise_for_status()

    def post(call: str, **body: object) -> int | None:
        held.client.post(f"{path}/readers/one{call}", json=body or None).raise_for_status()
        (reader,) = held.client.get(path).json()["readers"]
        advanced_ms: int | None = reader["advanced_ms"]
        return advanced_ms

    assert post("") is None
    read = held.client.get(f"{path}/state")
    owned = {held.name: {"0": 0, "1": 0}}
    state = read.json() | {"unassigned": {}, "readers": {"one": {"epoch": 1, "owned": owned}}}
    match = {"if-match": read.headers["etag"]}
    held.client.put(f"{path}/state", json=state, headers=match).raise_for_status()
    advanced_ms = post("/position", epoch=1, position={held.name: {"0": 1}})
    assert advanced_ms is not None
    assert 0 <= advanced_ms < JUST_NOW_MS
    assert post("/heartbeat", epoch=1) >= advanced_ms  # type: ignore[operator]
    assert post("") is None  # another process
