"""Scaling by hand and by a policy: what is continued, what is refused, and what everybody sees."""

import asyncio
import json
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Engine, event

from controller import factory
from controller.background.scaling import sample
from controller.clocks import ListeningClock
from controller.streams import lifecycle
from reader_client import StreamClient
from tests.patience import wait_until
from tests.service.in_process import Service
from tests.service.log_api import LogApi, numbered
from tests.service.log_service import LogService, serving
from tidegauge.errors import (
    UnavailableError,
)
from tidegauge.wire.streams import ChangeStream, ScaleStream, ScalingInfo

HALVES = [[0.0, 0.5], [0.5, 1.0]]


def _scale(log: LogApi, seal: list[int], ranges: list[list[float]], **more: int) -> Any:
    body = {"seal": seal, "ranges": ranges} | more
    return log.json(log.client.post(f"{log.path}/scale", json=body))


def _segments(log: LogApi) -> list[tuple[Any, ...]]:
    described = log.client.get(log.path).json()["topology"]["segments"]
    return [
        (
            segment["number"],
            segment["low"],
            segment["high"],
            segment["predecessors"],
            segment["sealed_length"],
        )
        for segment in described
    ]


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
    known = [
        (segment["number"], segment["low"], segment["high"])
        for segment in refused["continuation"]
    ]
    assert known == [(0, 0.0, 1.0), (1, 0.0, 0.5), (2, 0.5, 1.0)]
    assert refused["topology_revision"] == 1
    lines = "\n".join(f'{{"key": "k{n}", "value": "{n}"}}' for n in range(20))
    assert log.append_lines(lines)["position"].keys() == {"1", "2"}
    assert log.events() == numbered(0, 3)


@pytest.mark.anyio
async def test_nobody_learns_of_segments_that_are_not_stored_in_the_end(
    database_url: str,
) -> None:
    """Others may get their numbers: what was routed by them would lose the order of its keys."""
    async with serving(database_url) as log:
        await log.create(segments=1)
        await log.register("w")
        request = ScaleStream(seal=[0], ranges=[(0, 0.5), (0.5, 1)])

        async def scale() -> None:
            work = partial(lifecycle.scale_stream, state=log.state, request=request)
            await log.parts.sequencer.submit(work)

        log.fail_next_write()
        append = log.append("w", 1, 0, 1, numbered(0, 1))
        failed = await asyncio.gather(scale(), append, return_exceptions=True)
        assert [type(failure) for failure in failed] == [UnavailableError, UnavailableError]
        assert (await log.append("w", 1, 0, 1, numbered(0, 1))).next_offset == 1


def test_the_same_scaling_again_changes_nothing_whatever_its_revision(log: LogApi) -> None:
    log.create()
    first = _scale(log, [0], HALVES, topology_revision=0)
    _scale(log, [1], [[0, 0.25], [0.25, 0.5]])
    again = _scale(log, [0], HALVES, topology_revision=0)
    assert [segment["number"] for segment in again["segments"]] == [1, 2]
    assert first["topology"]["revision"] == 1
    assert again["topology"]["revision"] == 2


@pytest.mark.parametrize(
    ("seal", "ranges", "refusal"),
    [
        ([1], [[0.5, 0.6]], (422, "invalid_request", "ranges: [0.6, 1.0) is in none")),
        ([1], [[0.5, 1.5]], (422, "invalid_request", "less than or equal to 1, not 1.5")),
        ([1], [["0.5", 1]], (422, "invalid_request", "should be a valid number")),
        ([], [[0, 1]], (422, "invalid_request", "seal: ")),
        ([7], [[0, 1]], (404, "unknown_segment", "there is no segment 7")),
        (
            [0],
            [[0, 0.5]],
            (409, "topology_changed", "0 is sealed already, and continued by 2 and 3"),
        ),
        ([1], [[0.5, 0.75], [0.75, 1]], (409, "segment_limit", "tidegauge configure")),
    ],
)
def test_what_cannot_be_scaled_is_refused_with_the_value_and_the_cure(
    log: LogApi, seal: list[int], ranges: list[list[float]], refusal: tuple[int, str, str]
) -> None:
    log.create(segments=2, max_segments=3)
    _scale(log, [0], [[0, 0.25], [0.25, 0.5]])
    refused = _scale(log, seal, ranges)
    status, code, detail = refusal
    assert (refused["status"], refused["code"]) == (status, code)
    assert detail in refused["detail"]
    assert len(_segments(log)) == 4
    assert len(_scale(log, [1, 3], [[0.25, 0.6], [0.6, 1]])["segments"]) == 2


def test_a_scaling_of_an_older_topology_is_refused(log: LogApi) -> None:
    log.create(segments=2)
    _scale(log, [0], [[0, 0.25], [0.25, 0.5]])
    refused = _scale(log, [1], [[0.5, 1]], topology_revision=0)
    assert (refused["code"], refused["topology_revision"]) == ("topology_changed", 1)
    assert "revision 0 was asked for; the topology of stream" in refused["detail"]


def test_a_client_does_not_split_twice_nor_into_nothing(log: LogApi) -> None:
    log.create()
    with StreamClient(log.url, log.name) as client:
        assert client.split(0) == client.split(0)
        with pytest.raises(ValueError, match="parts=0"):
            client.split(1, 0)


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def _poll(log: LogApi, after: str) -> dict[str, Any]:
    return log.json(log.client.get(f"{log.path}/tail?after={after}&wait_ms=30000"))


def test_a_poll_of_the_tail_wakes_on_a_new_segment_and_need_not_name_sealed_ones(
    log: LogApi, service: Service, threads: ThreadPoolExecutor
) -> None:
    log.create()
    log.append_lines('{"key": "a", "value": ""}')

    def poll(after: str) -> Any:
        polling = threads.submit(_poll, log, after)
        wait_until(lambda: len(service.app.parts.waiting) == 1)
        return polling

    of_one_segment = poll("0:1")
    _scale(log, [0], HALVES)
    woken = of_one_segment.result()
    assert (woken["tail"], woken["topology_revision"]) == ({"0": 1, "1": 0, "2": 0}, 1)
    for at_once in ("0:0,1:0,2:0", "0:1,1:0"):
        assert _poll(log, at_once)["tail"]["0"] == 1
    of_growing_ones = poll("1:0,2:0")
    log.append_lines('{"key": "a", "value": ""}')
    assert of_growing_ones.result()["tail"].keys() == {"0", "1", "2"}


def test_where_a_time_starts_costs_the_same_number_of_queries_behind_many_scalings(
    log: LogApi,
) -> None:
    asked: list[str] = []
    log.create()
    for number in range(40):
        line = json.dumps({"key": "a", "event_time": 1_000 + number, "value": ""})
        log.append_lines(line)
        _scale(log, [number], [[0, 1]])

    def remember(_one: object, _cursor: object, query: str, *_: object) -> None:
        if "FROM wanted" in query:
            asked.append(query)

    event.listen(Engine, "before_cursor_execute", remember)
    try:
        for time, start in ((1_000, {"0": 0}), (1_039, {"39": 0}), (1_040, {"40": 0})):
            assert log.start_of(time) == start
    finally:
        event.remove(Engine, "before_cursor_execute", remember)
    assert len(asked) == 2  # the last time is reached nowhere, and memory says so


def test_a_policy_comes_and_goes_by_patch_and_leaves_other_settings_alone(log: LogApi) -> None:
    assert log.create()["scaling"] is None
    changed = log.change(scaling={"bytes_per_s": "1000"})
    assert changed["config"]["scaling"] == {
        "events_per_s": None,
        "bytes_per_s": 1_000,
        "window_ms": 120_000,
        "cooldown_ms": 600_000,
        "min_segments": 1,
    }
    assert changed["scaling"]["unit"] == "bytes"
    assert log.change(min_writers=2)["config"]["scaling"] == changed["config"]["scaling"]
    assert log.change(scaling=None)["config"]["scaling"] == "fixed"
    assert log.change()["scaling"] is None


class Steps:
    """A service whose clock is moved by hand, a second at a time, as it takes no longer steps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ms = 0
        clock = partial(ListeningClock, monotonic_ms=lambda: self.now_ms)
        monkeypatch.setattr(factory, "ListeningClock", clock)

    async def let_pass(self, log: LogService, seconds: int) -> ScalingInfo:
        """Let time pass, and look at the load then."""
        clock = log.parts.clocks.listening
        clock.stamp()
        for _ in range(seconds):
            self.now_ms += 1_000
            clock.stamp()
        await log.parts.sequencer.submit(partial(sample, state=log.state))
        described = lifecycle.describe(log.state).scaling
        assert described is not None
        return described


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("unit", "took"), [("events", "2.5 events/s"), ("bytes", "[0-9.]+ bytes/s")]
)
async def test_rates_go_on_where_they_were_after_a_restart(
    unit: str, took: str, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ten minutes without a service are no time without load: they do not count."""
    steps = Steps(monkeypatch)
    async with serving(database_url) as log:
        await log.create(segments=1)
        change = ChangeStream.of_settings(scaling={f"{unit}_per_s": 1})
        await log.parts.sequencer.submit(
            partial(lifecycle.change_stream, state=log.state, change=change, if_match="*")
        )
        await steps.let_pass(log, 0)
        await log.register("w")
        await log.append("w", 1, 0, 1, numbered(0, 150))
        seen = await steps.let_pass(log, 60)
        assert seen.segments[0].waits == "measured for 2m first"
    steps.now_ms += 600_000
    async with serving(database_url) as log:
        await log.append("w", 1, 0, 2, numbered(150, 150))
        seen = await steps.let_pass(log, 60)
        (split,) = seen.actions
        assert (split.sealed, split.added) == ([0], [1, 2])
        assert re.fullmatch(f"segment 0 took {took}, above twice the target of 1", split.reason)
        assert [segment.number for segment in seen.segments] == [1, 2]
    async with serving(database_url) as log:
        assert lifecycle.describe(log.state).scaling == seen
