"""Scaling over HTTP: what is sealed and continued, what is refused, and what everybody sees of it."""

import asyncio
import json
import threading
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event

from controller.configuration import ServeSettings
from controller.log.codec import encode_chunks
from controller.log.times import EventTimes
from controller.streams import lifecycle
from controller.streams.appends import append_arrow
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.in_process import in_process
from tests.service.log_api import LogApi, numbered
from tests.service.log_service import batch_of, serving
from tidegauge.errors import UnavailableError
from tidegauge.wire.streams import ScaleStream

HALVES = [[0.0, 0.5], [0.5, 1.0]]


def _scale(log: LogApi, seal: list[int], ranges: list[list[float]], **more: int) -> Any:
    body = {"seal": seal, "ranges": ranges} | more
    return log.json(log.client.post(f"{log.path}/scale", json=body))


def _segments(log: LogApi) -> list[tuple[Any, ...]]:
    described = log.json(log.client.get(log.path))["topology"]["segments"]
    return [
        (one["number"], one["low"], one["high"], one["predecessors"], one["sealed_length"])
        for one in described
    ]


def test_a_split_and_a_merge_seal_segments_at_their_tails(log: LogApi) -> None:
    log.create()
    log.register()
    log.append(numbered(0, 3), 1)
    split = _scale(log, [0], HALVES, topology_revision=0)
    assert [one["number"] for one in split["segments"]] == [1, 2]
    assert split["topology"] == log.json(log.client.get(log.path))["topology"]
    log.append(numbered(3, 2), 1, segment=2)
    merged = _scale(log, [1, 2], [[0, 1]])
    assert merged["topology"]["revision"] == 2
    assert _segments(log) == [
        (0, 0.0, 1.0, [], 3),
        (1, 0.0, 0.5, [0], 0),
        (2, 0.5, 1.0, [0], 2),
        (3, 0.0, 1.0, [1, 2], None),
    ]
    assert log.tail() == {"0": 3, "1": 0, "2": 2, "3": 0}


def test_a_sealed_segment_refuses_what_was_not_stored_and_names_its_successors(
    log: LogApi,
) -> None:
    log.create()
    log.register()
    log.append(numbered(0, 3), 1)
    _scale(log, [0], HALVES)
    assert log.append(numbered(0, 3), 1)["duplicate"] is True
    refused = log.append(numbered(3, 1), 2)
    assert (refused["code"], refused["successors"], refused["last_sequence"]) == (
        "segment_sealed",
        [1, 2],
        1,
    )
    known = [(one["number"], one["low"], one["high"]) for one in refused["continuation"]]
    assert known == [(0, 0.0, 1.0), (1, 0.0, 0.5), (2, 0.5, 1.0)]
    assert refused["topology_revision"] == 1
    lines = "\n".join(f'{{"key": "k{n}", "value": "{n}"}}' for n in range(20))
    assert log.append_lines(lines)["position"].keys() == {"1", "2"}
    assert log.events() == numbered(0, 3)


def test_nobody_is_told_of_segments_that_are_not_stored_in_the_end(database_url: str) -> None:
    """Others may get their numbers: what was routed by them would lose the order of its keys."""

    async def scene() -> None:
        async with serving(database_url) as log:
            await log.create(segments=1)
            await log.register("w")
            request = ScaleStream(seal=[0], ranges=[(0, 0.5), (0.5, 1)])
            scale = partial(lifecycle.scale_stream, state=log.state, request=request)
            events = encode_chunks(batch_of(numbered(0, 1)), writer=None, append_time=0)
            append = partial(
                append_arrow,
                state=log.state,
                segment=0,
                events=events,
                times=EventTimes(None, None),
                writer="w",
                incarnation=1,
                sequence=1,
            )
            log.fail_next_write()
            together = [log.parts.sequencer.submit(one) for one in (scale, append)]
            failed = await asyncio.gather(*together, return_exceptions=True)
            assert [type(one) for one in failed] == [UnavailableError, UnavailableError]
            assert (await log.append("w", 1, 0, 1, numbered(0, 1))).next_offset == 1

    asyncio.run(scene())


def test_the_same_scaling_again_changes_nothing_whatever_its_revision(log: LogApi) -> None:
    log.create()
    first = _scale(log, [0], HALVES, topology_revision=0)
    _scale(log, [1], [[0, 0.25], [0.25, 0.5]])
    again = _scale(log, [0], HALVES, topology_revision=0)
    assert [one["number"] for one in again["segments"]] == [1, 2]
    assert first["topology"]["revision"] == 1
    assert again["topology"]["revision"] == 2


@pytest.mark.parametrize(
    ("seal", "ranges", "more", "refusal"),
    [
        ([1], [[0.5, 0.6]], {}, (422, "invalid_request", "ranges: [0.6, 1.0) is in none")),
        ([1], [[0.5, 1], [0.7, 1]], {}, (422, "invalid_request", "[0.7, 1.0) is in more than")),
        ([1], [[0.4, 1]], {}, (422, "invalid_request", "[0.4, 0.5) is not owned by what")),
        ([1], [[0.5, 1.5]], {}, (422, "invalid_request", "less than or equal to 1, not 1.5")),
        ([1], [["0.5", 1]], {}, (422, "invalid_request", "should be a valid number")),
        ([], [[0, 1]], {}, (422, "invalid_request", "seal: ")),
        ([7], [[0, 1]], {}, (404, "unknown_segment", "there is no segment 7")),
        (
            [0],
            [[0, 0.5]],
            {},
            (409, "topology_changed", "segment 0 is sealed already, and continued by 2 and 3"),
        ),
        (
            [1],
            [[0.5, 1]],
            {"topology_revision": 0},
            (409, "topology_changed", "revision 0 was asked for; the topology of stream"),
        ),
    ],
)
def test_what_cannot_be_scaled_is_refused_with_the_value_and_the_cure(
    log: LogApi,
    seal: list[int],
    ranges: list[list[float]],
    more: dict[str, int],
    refusal: tuple[int, str, str],
) -> None:
    log.create(segments=2)
    _scale(log, [0], [[0, 0.25], [0.25, 0.5]])
    refused = _scale(log, seal, ranges, **more)
    status, code, detail = refusal
    assert (refused["status"], refused["code"]) == (status, code)
    assert detail in refused["detail"]
    if code == "topology_changed":
        assert refused["topology_revision"] == 1
    assert len(_segments(log)) == 4


def test_no_more_segments_grow_than_the_stream_says(log: LogApi) -> None:
    log.create(max_segments=2)
    _scale(log, [0], HALVES)
    refused = _scale(log, [1], [[0, 0.25], [0.25, 0.5]])
    assert (refused["status"], refused["code"], refused["segments"]) == (
        409,
        "segment_limit",
        3,
    )
    assert "tidegauge configure" in refused["detail"]
    assert len(_scale(log, [1, 2], [[0, 0.25], [0.25, 1]])["segments"]) == 2


def test_an_external_log_and_a_sealed_stream_are_not_scaled(log: LogApi) -> None:
    log.create(log="external")
    assert _scale(log, [0], HALVES)["code"] == "log_is_external"
    log.client.delete(log.path).raise_for_status()
    log.create()
    log.client.post(f"{log.path}/seal").raise_for_status()
    assert _scale(log, [0], HALVES)["code"] == "stream_sealed"


def test_a_poll_of_the_tail_wakes_on_a_new_segment(
    shared_server: ServerProcess, log: LogApi
) -> None:
    log.create()
    heard: list[dict[str, Any]] = []

    def wait() -> None:
        with LogApi(shared_server.url, log.path.removeprefix("/v1/streams/")) as other:
            path = f"{other.path}/tail?after=0:0&wait_ms=30000"
            heard.append(other.json(other.client.get(path)))

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: "tidegauge_long_polls 0.0" not in shared_server.metrics())
    _scale(log, [0], HALVES)
    waiting.join()
    assert heard[0]["tail"] == {"0": 0, "1": 0, "2": 0}
    assert heard[0]["topology_revision"] == 1


def test_marks_windows_and_starts_go_through_a_split_and_a_merge(log: LogApi) -> None:
    log.create(mark_resolution_ms=0)
    log.register()
    log.append([("a", 1_000, b""), ("a", 2_000, b"")], 1)
    log.note_time(2_000, position={"0": 2}, incarnation=1)
    _scale(log, [0], HALVES)
    log.append([("a", 3_000, b"")], 1, segment=1)
    log.note_time(3_000, position={"1": 1}, incarnation=1)
    _scale(log, [1, 2], [[0, 1]])
    log.append([("a", 4_000, b"")], 1, segment=3)
    log.note_time(4_000, position={"3": 1}, incarnation=1)
    marks = log.json(log.client.get(f"{log.path}/marks"))["marks"]
    assert [(one["lower"], one["cut"]) for one in marks] == [
        (2_000, {"0": 2}),
        (3_000, {"1": 1, "2": 0}),
        (4_000, {"3": 1}),
    ]
    assert log.start_of(2_000) == {"0": 1}
    assert log.start_of(3_500) == {"3": 0}
    query = {"position": "0:2,1:0"}
    found = log.json(log.client.get(f"{log.path}/marks/at", params=query))
    assert (found["lower"], found["upper"]) == (2_000, 3_000)


def test_where_a_time_starts_costs_the_same_number_of_queries_behind_many_scalings(
    database_url: str,
) -> None:
    asked: list[str] = []

    async def scene() -> None:
        async with in_process(ServeSettings(database_url=database_url)) as (_, client):
            path = "/v1/streams/tests/scaled"
            (await client.put(path, json={"segments": 1})).raise_for_status()
            for number in range(40):
                line = json.dumps({"key": "a", "event_time": 1_000 + number, "value": ""})
                headers = {"content-type": "application/x-ndjson"}
                sent = await client.post(f"{path}/events", content=line, headers=headers)
                sent.raise_for_status()
                body = {"seal": [number], "ranges": [[0, 1]]}
                (await client.post(f"{path}/scale", json=body)).raise_for_status()
            event.listen(Engine, "before_cursor_execute", remember)
            for time, start in ((1_000, {"0": 0}), (1_039, {"39": 0}), (1_040, {"40": 0})):
                found = await client.get(f"{path}/marks/at", params={"time": str(time)})
                assert found.raise_for_status().json()["start"] == start

    def remember(_one: object, _cursor: object, query: str, *_: object) -> None:
        if "FROM wanted" in query:
            asked.append(query)

    try:
        asyncio.run(scene())
    finally:
        event.remove(Engine, "before_cursor_execute", remember)
    assert len(asked) == 2  # the last time is reached nowhere, and memory tells


def test_a_poll_of_the_tail_need_not_name_sealed_segments(
    shared_server: ServerProcess, log: LogApi
) -> None:
    log.create()
    log.append_lines('{"key": "a", "value": ""}')
    _scale(log, [0], HALVES)
    for after in ("0:0,1:0,2:0", "0:1,1:0"):
        query = {"after": after, "wait_ms": "30000"}
        assert log.json(log.client.get(f"{log.path}/tail", params=query))["tail"]["0"] == 1

    def wait() -> None:
        with LogApi(shared_server.url, log.path.removeprefix("/v1/streams/")) as other:
            other.client.get(f"{other.path}/tail?after=1:0,2:0&wait_ms=30000")

    waiting = threading.Thread(target=wait)
    waiting.start()
    wait_until(lambda: "tidegauge_long_polls 0.0" not in shared_server.metrics())
    log.append_lines('{"key": "a", "value": ""}')
    waiting.join()
