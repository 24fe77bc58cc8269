"""Calls about streams, their settings, what ends them, and marks as an index."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import httpx
import pytest

from tests.patience import wait_until
from tests.service.api import Api
from tests.service.in_process import Service
from tests.service.log_api import LogApi
from tests.service.problems import check_problem
from tidegauge.event_time import END_OF_TIME
from tidegauge.wire.streams import ChangeStream, CreateStream, StreamConfig

NOW = 1_700_000_000_000
_NUMBERS = count(1)


@pytest.fixture
def api(service: Service) -> Iterator[Api]:
    """A stream of this test's own, which it creates."""
    name = f"calls/one-{next(_NUMBERS)}"
    with Api(service.url, name, transport=service) as api:
        yield api


def _put(api: Api, **settings: object) -> httpx.Response:
    return api.client.put(api.path, json=settings)


def _patch(api: Api, match: str, **settings: object) -> httpx.Response:
    return api.client.patch(api.path, json=settings, headers={"if-match": match})


def _numbers(api: Api) -> list[int]:
    segments = api.client.get(api.path).json()["topology"]["segments"]
    return [segment["number"] for segment in segments]


def _position_refused(api: Api, **position: int) -> dict[str, Any]:
    refused = api.hears("w", "note-time", time=NOW, position=position)
    assert (refused["status"], refused["code"]) == (409, "invalid_position")
    return refused


@pytest.mark.parametrize("log", ["embedded", "external"])
def test_the_same_stream_again_or_a_part_of_it_changes_nothing(api: Api, log: str) -> None:
    wanted = {"log": log, "segments": 3, "max_segments": None, "scaling": None}
    answers = [_put(api, **wanted), _put(api, **wanted), _put(api, log=log, min_writers=0)]
    assert [answer.status_code for answer in answers] == [201, 200, 200]
    first, *others = [answer.json() for answer in answers]
    assert others == [first, first]


def test_another_stream_of_the_name_is_a_conflict(api: Api) -> None:
    _put(api, segments=2)
    other = check_problem(_put(api, segments=3, min_writers=1), 409, "stream_exists")
    assert other["differences"] == {
        "segments": {"stored": 2, "given": 3},
        "min_writers": {"stored": 0, "given": 1},
    }
    only = api.client.put(api.path, json={}, headers={"If-None-Match": "*"})
    check_problem(only, 412, "precondition_failed")


def test_every_setting_that_is_taken_is_kept() -> None:
    assert CreateStream.model_fields.keys() == StreamConfig.model_fields.keys()
    assert ChangeStream.model_fields.keys() == CreateStream.model_fields.keys()


def test_settings_change_only_with_the_newest_etag(api: Api) -> None:
    old = _put(api).headers["etag"]
    changed = _patch(api, old, min_writers=1, aggregation_timeout_ms=None)
    config = changed.raise_for_status().json()["config"]
    assert (config["aggregation_timeout_ms"], config["mark_interval_ms"]) == (None, 100)
    late = check_problem(_patch(api, old, min_writers=2), 412, "precondition_failed")
    assert late["etag"] == changed.headers["etag"] != old
    assert api.client.get(api.path).headers["etag"] == changed.headers["etag"]


def test_a_new_partition_is_added_up_to_the_limit(api: Api) -> None:
    api.create(segments=2, max_segments=3)
    api.says("w", "note-time", time=NOW, position={"0": 5, "7": 3})
    assert _numbers(api) == [0, 1, 7]
    assert api.client.get(api.path).json()["topology"]["revision"] == 1
    assert api.mark == (NOW, {"0": 5, "1": 0, "7": 3})
    _position_refused(api, **{"8": 1})
    negative = _position_refused(api, **{"-1": 1})
    assert negative["reason"] == "partition numbers are 0 or more"


def test_a_refused_report_adds_no_partition(api: Api) -> None:
    api.create(max_segments=2)
    api.note("w", NOW)
    refused = api.hears("w", "note-time", time=NOW - 1, position={"1": 1})
    assert refused["code"] == "invalid_time"
    assert _numbers(api) == [0]


def test_there_is_room_for_the_partitions_there_are(api: Api) -> None:
    few = check_problem(
        _put(api, log="external", segments=3, max_segments=2), 422, "invalid_request"
    )
    assert "2 are too few: the stream has 3" in few["detail"]
    api.create(segments=3)
    check_problem(_patch(api, "*", max_segments=2), 422, "invalid_request")
    assert api.change(max_segments=4)["config"]["max_segments"] == 4


def test_null_partitions_are_again_as_many_as_it_was_created_with(api: Api) -> None:
    wanted = {"log": "external", "segments": 2, "max_segments": None}
    _put(api, **wanted).raise_for_status()
    for number in (3, None):
        changed = api.change(max_segments=number)
        assert changed["config"]["max_segments"] == (number or 2)
    assert _put(api, **wanted).status_code == 200
    api.change(max_segments=3)
    api.says("w", "note-time", time=NOW, position={"7": 3})
    refused = check_problem(_patch(api, "*", max_segments=None), 422, "invalid_request")
    assert "2 are too few: the stream has 3" in refused["detail"]
    assert "null is for the number at creation" in refused["detail"]


def test_a_stream_is_found_again_without_a_word_of_its_partitions(api: Api) -> None:
    assert api.create(segments=2)["config"]["max_segments"] == 2
    for limit in (2, None):
        assert _put(api, log="external", max_segments=limit).status_code == 200
    other = check_problem(_put(api, log="external", max_segments=3), 409, "stream_exists")
    assert other["differences"] == {"max_segments": {"stored": 2, "given": 3}}
    _position_refused(api, **{"2": 1})  # a partition too many is a typo by default


def test_a_sealed_stream_takes_nothing_but_leaving(api: Api) -> None:
    api.create(segments=2)
    api.note("w", NOW, 4)
    api.note("v", NOW + 5)
    seal = f"{api.path}/seal"
    refused = check_problem(api.client.post(seal, json={}), 422, "invalid_request")
    assert "only you know where each partition ends" in refused["detail"]
    for missing in ({"0": 4}, {"0": 3, "1": 0}):
        answer = api.client.post(seal, json={"position": missing})
        check_problem(answer, 409, "invalid_position")
    mark = api.post("seal", position={"0": 9, "1": 2})["mark"]
    assert (mark["lower"], mark["cut"], mark["final"]) == (END_OF_TIME, {"0": 9, "1": 2}, True)
    assert api.post("seal")["mark"] == mark
    for refused in (
        api.hears("w", "register"),
        api.hears("w", "note-time", time=NOW + 9, position={}),
    ):
        assert (refused["status"], refused["code"]) == (409, "stream_sealed")
    left = api.post("writers/w/leave")
    assert (left["state"], left["final"]) == ("left", True)
    assert api.explanation()["reason"] == "sealed"


def test_a_stream_does_not_end_below_its_cut_though_its_writers_are_forgotten(
    api: Api,
) -> None:
    api.create(writer_retention_ms=0)
    api.note("w", NOW, 100)
    api.says("w", "leave")
    assert list(api.writers()) == []
    refused = api.client.post(f"{api.path}/seal", json={"position": {"0": 5}})
    check_problem(refused, 409, "invalid_position")
    assert api.post("seal", position={"0": 100})["mark"]["cut"] == {"0": 100}


def test_an_embedded_report_without_position_covers_the_tails(log: LogApi) -> None:
    log.create()
    log.write(("k", None), ("k", None))
    log.note_time(NOW)
    assert log.mark == (NOW, {"0": 2})
    _position_refused(log, **{"0": 3})


def test_marks_index_time_and_position(api: Api) -> None:
    api.create()
    for step in range(1, 5):
        api.note("w", NOW + step * 10_000, step * 10)
    at = api.get("marks/at", time=NOW + 25_000)
    assert at["stop"]["lower"] == NOW + 30_000
    assert (at["start"], at["exact"]) == ({"0": 20}, False)
    finer = api.get("marks/at", time="2023-11-14T22:13:40.0000001Z")
    assert (finer["start"], finer["stop"]["lower"]) == ({"0": 10}, NOW + 30_000)
    before = api.get("marks/at", time=NOW)
    assert (before["start"], before["stop"]["revision"]) == (None, 1)
    never = api.get("marks/at", time=NOW + 99_000)
    assert (never["stop"], never["start"]) == (None, {"0": 40})
    there = api.get("marks/at", position="0:20")
    assert (there["lower"], there["upper"]) == (NOW + 20_000, NOW + 30_000)
    assert there["passed"]["revision"] == 2


def test_a_page_has_the_fewer_marks_the_more_segments_a_stream_has(api: Api) -> None:
    api.create(segments=5_000)
    everywhere = {str(number): 1 for number in range(5_000)}
    api.says("w", "note-time", time=NOW, position=everywhere)
    for step in range(1, 23):
        api.note("w", NOW + step * 10_000)
    pages, after = [], 0
    while page := api.get("marks", after=after, limit=1_000)["marks"]:
        assert all(mark["cut"] == everywhere for mark in page)
        pages.append([mark["revision"] for mark in page])
        after = page[-1]["revision"]
    assert pages == [[*range(1, 11)], [*range(11, 21)], [21, 22, 23]]
    few = api.get("marks", after=20, limit=2)["marks"]
    assert [mark["revision"] for mark in few] == [21, 22]


def _keeps(api: Api, *revisions: int) -> None:
    wait_until(lambda: [mark["revision"] for mark in api.get("marks")["marks"]] == [*revisions])


def test_old_marks_that_groups_need_are_kept_and_the_first_of_the_events_that_are_there(
    log: LogApi,
) -> None:
    log.create(mark_retention_ms=1)
    log.write(*[("k", None)] * 4)
    with log.group() as group:
        group.create([log.name], start_cut={log.name: {0: 2}})
        for step in range(1, 5):
            log.note("w", NOW + step * 10_000, step)
        _keeps(log, 1, 2, 4)
        assert group.get_time_window(log.name).lower == NOW + 20_000
    there = log.get("marks/at", position="0:3")
    assert (there["lower"], there["upper"]) == (NOW + 20_000, NOW + 40_000)


@pytest.mark.parametrize("call", ["marks", "tail"])
def test_a_long_poll_learns_that_the_stream_was_deleted(
    log: LogApi, service: Service, call: str
) -> None:
    log.create()
    query = {"wait_ms": "20000", "after": "0" if call == "marks" else "0:0"}
    with ThreadPoolExecutor() as threads:
        poll = threads.submit(log.client.get, f"{log.path}/{call}", params=query)
        wait_until(lambda: len(service.app.parts.waiting) == 1)
        log.client.delete(log.path)
        check_problem(poll.result(), 404, "unknown_stream")
