"""Calls about streams, writers and marks, on the application in process."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from controller.configuration import ServeSettings
from tests.patience import wait_until
from tests.service.in_process import called_in_process

NOW = 1_700_000_000_000
STREAM = "/v1/streams/tests/one"


@pytest.fixture
def client(database_url: str) -> Iterator[httpx.Client]:
    with called_in_process(ServeSettings(database_url=database_url)) as one:
        yield one


def _create(client: httpx.Client, **settings: object) -> Any:
    wanted = {"log": "external", "segments": 1, "mark_interval_ms": 0} | settings
    answer = client.put(STREAM, json=wanted)
    return answer.raise_for_status().json()


def _note(client: httpx.Client, writer: str, time: int, **more: object) -> Any:
    body = {"time": time, "position": {}} | more
    return client.post(f"{STREAM}/writers/{writer}/note-time", json=body)


def _get(client: httpx.Client, call: str, **query: object) -> Any:
    params = {name: str(value) for name, value in query.items()}
    return client.get(f"{STREAM}{call}", params=params).raise_for_status().json()


def test_the_same_stream_again_changes_nothing(client: httpx.Client) -> None:
    first = client.put(STREAM, json={"segments": 2})
    again = client.put(STREAM, json={"segments": 2})
    partly = client.put(STREAM, json={"min_writers": 0})
    assert [first.status_code, again.status_code, partly.status_code] == [201, 200, 200]
    assert first.json() == again.json() == partly.json()


@pytest.mark.parametrize("log", ["embedded", "external"])
def test_null_stands_for_the_same_when_it_is_sent_again(client: httpx.Client, log: str) -> None:
    wanted = {"log": log, "segments": 3, "max_segments": None, "scaling": None}
    first = client.put(STREAM, json=wanted)
    again = client.put(STREAM, json=wanted)
    assert [first.status_code, again.status_code] == [201, 200]


def test_another_stream_of_the_name_is_a_conflict(client: httpx.Client) -> None:
    client.put(STREAM, json={"segments": 2})
    other = client.put(STREAM, json={"segments": 3, "min_writers": 1})
    assert other.status_code == 409
    assert other.json()["code"] == "stream_exists"
    assert other.json()["differences"] == {
        "segments": {"stored": 2, "given": 3},
        "min_writers": {"stored": 0, "given": 1},
    }
    only = client.put(STREAM, json={}, headers={"If-None-Match": "*"})
    assert (only.status_code, only.json()["code"]) == (412, "precondition_failed")


def test_settings_change_only_with_the_newest_etag(client: httpx.Client) -> None:
    old = (client.put(STREAM, json={})).headers["etag"]
    missing = client.patch(STREAM, json={"min_writers": 1})
    assert (missing.status_code, missing.json()["code"]) == (428, "precondition_required")
    changed = client.patch(
        STREAM,
        json={"min_writers": 1, "aggregation_timeout_ms": None},
        headers={"If-Match": old},
    )
    assert changed.status_code == 200
    assert changed.json()["config"]["aggregation_timeout_ms"] is None
    assert changed.json()["config"]["mark_interval_ms"] == 100
    late = client.patch(STREAM, json={"min_writers": 2}, headers={"If-Match": old})
    assert late.status_code == 412
    assert late.json()["etag"] == changed.headers["etag"] != old
    described = client.get(STREAM)
    assert described.headers["etag"] == changed.headers["etag"]


@pytest.mark.parametrize("setting", [{"segments": 4}, {"log": "external"}])
def test_what_is_fixed_cannot_be_changed(
    client: httpx.Client, setting: dict[str, object]
) -> None:
    client.put(STREAM, json={})
    answer = client.patch(STREAM, json=setting, headers={"If-Match": "*"})
    assert (answer.status_code, answer.json()["code"]) == (409, "immutable_setting")


def test_a_stream_created_again_is_another(client: httpx.Client) -> None:
    former = (_create(client))["stream_id"]
    _note(client, "w", NOW)
    assert (client.delete(STREAM)).status_code == 204
    assert (client.get(STREAM)).status_code == 404
    assert _note(client, "w", NOW).status_code == 404
    assert (_create(client))["stream_id"] != former
    assert _get(client, "/writers")["writers"] == []
    assert _get(client, "/marks")["marks"] == []
    replaced = client.get(STREAM, params={"stream_id": former})
    assert (replaced.status_code, replaced.json()["code"]) == (409, "stream_replaced")
    noted = client.post(
        f"{STREAM}/writers/w/note-time",
        params={"stream_id": former},
        json={"time": NOW, "position": {}},
    )
    assert noted.json()["code"] == "stream_replaced"


def test_streams_are_listed_page_by_page(client: httpx.Client) -> None:
    for name in ("b/two", "a/one", "a/two"):
        client.put(f"/v1/streams/{name}", json={})
    first = (client.get("/v1/streams", params={"limit": 2})).json()
    assert [one["stream"] for one in first["streams"]] == ["a/one", "a/two"]
    rest = client.get("/v1/streams", params={"cursor": first["cursor"]})
    assert [one["stream"] for one in rest.json()["streams"]] == ["b/two"]
    assert rest.json()["cursor"] is None


def test_a_new_partition_is_added_up_to_the_limit(client: httpx.Client) -> None:
    _create(client, segments=2, max_segments=3)
    noted = _note(client, "w", NOW, position={"0": 5, "7": 3})
    assert noted.status_code == 200
    described = _get(client, "")
    assert [one["number"] for one in described["topology"]["segments"]] == [0, 1, 7]
    assert described["topology"]["revision"] == 1
    marks = _get(client, "/marks")["marks"]
    assert marks[-1]["cut"] == {"0": 5, "1": 0, "7": 3}
    beyond = _note(client, "w", NOW, position={"8": 1})
    assert (beyond.status_code, beyond.json()["code"]) == (409, "invalid_position")
    negative = _note(client, "w", NOW, position={"-1": 1})
    assert negative.json()["reason"] == "partition numbers are 0 or more"


def test_a_refused_report_adds_no_partition(client: httpx.Client) -> None:
    _create(client, max_segments=2)
    _note(client, "w", NOW)
    refused = _note(client, "w", NOW - 1, position={"1": 1})
    assert refused.json()["code"] == "invalid_time"
    assert len(_get(client, "")["topology"]["segments"]) == 1


def test_there_is_room_for_the_partitions_there_are(client: httpx.Client) -> None:
    settings = {"log": "external", "segments": 3, "max_segments": 2}
    refused = client.put(STREAM, json=settings)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "2 are too few: the stream has 3" in refused.text
    _create(client, segments=3)
    match = {"if-match": "*"}
    refused = client.patch(STREAM, json={"max_segments": 2}, headers=match)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    changed = client.patch(STREAM, json={"max_segments": 4}, headers=match)
    assert changed.json()["config"]["max_segments"] == 4


def test_null_partitions_are_again_as_many_as_it_was_created_with(client: httpx.Client) -> None:
    wanted = {"log": "external", "segments": 2, "max_segments": None}
    (client.put(STREAM, json=wanted)).raise_for_status()
    match = {"if-match": "*"}
    for number in (3, None):
        changed = client.patch(STREAM, json={"max_segments": number}, headers=match)
        assert changed.json()["config"]["max_segments"] == (number or 2)
    assert (client.put(STREAM, json=wanted)).status_code == 200
    client.patch(STREAM, json={"max_segments": 3}, headers=match)
    _note(client, "w", NOW, position={"7": 3})
    refused = client.patch(STREAM, json={"max_segments": None}, headers=match)
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "2 are too few: the stream has 3" in refused.text
    assert "null is for the number at creation" in refused.text


def test_a_stream_is_found_again_without_a_word_of_its_partitions(client: httpx.Client) -> None:
    _create(client, segments=2)
    for limit in (2, None):
        wanted = {"log": "external", "max_segments": limit}
        assert (client.put(STREAM, json=wanted)).status_code == 200
    other = client.put(STREAM, json={"log": "external", "max_segments": 3})
    assert other.json()["differences"] == {"max_segments": {"stored": 2, "given": 3}}


def test_a_partition_too_many_is_a_typo_by_default(client: httpx.Client) -> None:
    assert _create(client, segments=2)["config"]["max_segments"] == 2
    refused = _note(client, "w", NOW, position={"2": 1})
    assert refused.json()["code"] == "invalid_position"


def test_seconds_are_accepted_with_a_hint(client: httpx.Client) -> None:
    _create(client)
    assert "seconds" in _note(client, "w", 1_700_000_000).json()["hint"]
    assert "seconds" in _get(client, "/watermark")["explanation"]["hint"]
    assert _note(client, "w", NOW).json()["hint"] is None


def test_logical_time_gets_no_hint(client: httpx.Client) -> None:
    _create(client, max_future_skew_ms=None)
    assert _note(client, "w", 7).json()["hint"] is None
    assert _note(client, "w", 2**60).status_code == 200


@pytest.mark.parametrize(
    "time", [str(NOW), "2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00"]
)
def test_times_and_offsets_may_be_text(client: httpx.Client, time: str) -> None:
    _create(client)
    _note(client, "w", time, position={"0": "40"})  # type: ignore[arg-type]
    mark = _get(client, "/watermark")["mark"]
    assert (mark["lower"], mark["cut"]) == (NOW, {"0": 40})


def test_a_sealed_stream_takes_nothing_but_leaving(client: httpx.Client) -> None:
    _create(client, segments=2)
    _note(client, "w", NOW, position={"0": 4})
    _note(client, "v", NOW + 5)
    seal = f"{STREAM}/seal"
    refused = client.post(seal, json={})
    assert (refused.status_code, refused.json()["code"]) == (422, "invalid_request")
    assert "only you know where each partition ends" in refused.json()["detail"]
    for missing in ({"position": {"0": 4}}, {"position": {"0": 3, "1": 0}}):
        refused = client.post(seal, json=missing)
        assert (refused.status_code, refused.json()["code"]) == (409, "invalid_position")
    sealed = client.post(seal, json={"position": {"0": 9, "1": 2}})
    mark = sealed.raise_for_status().json()["mark"]
    assert (mark["lower"], mark["cut"], mark["final"]) == (
        2**63 - 1,
        {"0": 9, "1": 2},
        True,
    )
    again = client.post(seal, json={})
    assert again.json()["mark"] == mark
    for call in ("register", "note-time"):
        body = {"time": NOW + 9, "position": {}} if call == "note-time" else {}
        refused = client.post(f"{STREAM}/writers/w/{call}", json=body)
        assert (refused.status_code, refused.json()["code"]) == (409, "stream_sealed")
    left = client.post(f"{STREAM}/writers/w/leave", json={})
    assert (left.status_code, left.json()["state"], left.json()["final"]) == (
        200,
        "left",
        True,
    )
    assert _get(client, "/watermark")["explanation"]["reason"] == "sealed"


def test_a_stream_does_not_end_below_its_cut_though_its_writers_are_forgotten(
    client: httpx.Client,
) -> None:
    _create(client, writer_retention_ms=0)
    _note(client, "w", NOW, position={"0": 100})
    (client.post(f"{STREAM}/writers/w/leave", json={})).raise_for_status()
    assert _get(client, "/writers")["writers"] == []
    refused = client.post(f"{STREAM}/seal", json={"position": {"0": 5}})
    assert (refused.status_code, refused.json()["code"]) == (409, "invalid_position")
    sealed = client.post(f"{STREAM}/seal", json={"position": {"0": 100}})
    assert sealed.raise_for_status().json()["mark"]["cut"] == {"0": 100}


def test_an_embedded_report_without_position_covers_the_tails(client: httpx.Client) -> None:
    _create(client, log="embedded")
    headers = {"content-type": "application/x-ndjson"}
    lines = '{"key": "k", "value": "1"}\n{"key": "k", "value": "2"}\n'
    (client.post(f"{STREAM}/events", content=lines, headers=headers)).raise_for_status()
    noted = client.post(f"{STREAM}/writers/w/note-time", json={"time": NOW})
    assert noted.status_code == 200
    assert _get(client, "/watermark")["mark"]["cut"] == {"0": 2}
    beyond = _note(client, "w", NOW, position={"0": 3})
    assert beyond.json()["code"] == "invalid_position"


def test_marks_index_time_and_position(client: httpx.Client) -> None:
    _create(client)
    for step in range(1, 5):
        _note(client, "w", NOW + step * 10_000, position={"0": step * 10})
    at = _get(client, "/marks/at", time=NOW + 25_000)
    assert at["stop"]["lower"] == NOW + 30_000
    assert (at["start"], at["exact"]) == ({"0": 20}, False)
    before = _get(client, "/marks/at", time=NOW)
    assert (before["start"], before["stop"]["revision"]) == (None, 1)
    never = _get(client, "/marks/at", time=NOW + 99_000)
    assert (never["stop"], never["start"]) == (None, {"0": 40})
    there = _get(client, "/marks/at", position="0:20")
    assert (there["lower"], there["upper"]) == (NOW + 20_000, NOW + 30_000)
    assert there["passed"]["revision"] == 2


def test_a_time_starts_at_the_last_mark_before_anybody_noted_it(client: httpx.Client) -> None:
    _create(client)
    for writer, at_ms, offset in (("w", 0, 1), ("fast", 50_000, 9), ("w", 10_000, 5)):
        _note(client, writer, NOW + at_ms, position={"0": offset})
    _note(client, "w", NOW + 60_000, position={"0": 12})
    bounds = [(one["lower"], one["upper"]) for one in _get(client, "/marks")["marks"]]
    assert bounds[1:] == [(NOW + 10_000, NOW + 50_000), (NOW + 50_000, NOW + 60_000)]
    at = _get(client, "/marks/at", time=NOW + 30_000)
    assert (at["start"], at["stop"]["revision"]) == ({"0": 1}, 3)


def test_marks_are_paged_by_revision(client: httpx.Client) -> None:
    _create(client)
    for step in range(1, 8):
        _note(client, "w", NOW + step * 10_000)
    first = _get(client, "/marks", limit=3)["marks"]
    rest = _get(client, "/marks", after=3)["marks"]
    assert [one["revision"] for one in first + rest] == [1, 2, 3, 4, 5, 6, 7]


def test_a_page_has_the_fewer_marks_the_more_segments_a_stream_has(
    client: httpx.Client,
) -> None:
    _create(client, segments=5_000)
    everywhere = {str(number): 1 for number in range(5_000)}
    for step in range(1, 24):
        position = everywhere if step == 1 else {}
        _note(client, "w", NOW + step * 10_000, position=position)
    pages, after = [], 0
    while page := _get(client, "/marks", after=after, limit=1_000)["marks"]:
        assert all(one["cut"] == everywhere for one in page)
        pages.append([one["revision"] for one in page])
        after = page[-1]["revision"]
    assert pages == [[*range(1, 11)], [*range(11, 21)], [21, 22, 23]]
    few = _get(client, "/marks", after=20, limit=2)["marks"]
    assert [one["revision"] for one in few] == [21, 22]


def test_old_marks_are_deleted_but_the_newest(client: httpx.Client) -> None:
    _create(client, mark_retention_ms=1)
    for step in range(1, 5):
        _note(client, "w", NOW + step * 10_000, position={"0": step})
    wait_until(lambda: len(_get(client, "/marks")["marks"]) == 1)
    marks = _get(client, "/marks")["marks"]
    assert [(one["revision"], one["lower"]) for one in marks] == [(4, NOW + 40_000)]
    there = _get(client, "/marks/at", position="0:4")
    assert there["lower"] == NOW + 40_000


@pytest.mark.parametrize("call", ["marks", "tail"])
def test_a_long_poll_tells_that_the_stream_was_deleted(client: httpx.Client, call: str) -> None:
    _create(client, log="embedded")
    query = {"wait_ms": "20000", "after": "0" if call == "marks" else "0:0"}
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(client.get, f"{STREAM}/{call}", params=query)
        wait_until(lambda: "tidegauge_long_polls 1.0" in client.get("/metrics").text)
        client.delete(STREAM)
        answer = poll.result()
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_stream")
