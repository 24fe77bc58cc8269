"""The calls for the morning after, on both databases: who held, when a time was complete, how event time went."""

import time
from functools import partial
from itertools import pairwise
from typing import Any

import httpx
import pytest

from controller.commit.batch import Batch
from controller.store.holds import forget_holds
from tests.service.api import Api, Open
from tests.service.in_process import Service
from tidegauge.event_time import END_OF_TIME

NOW = 1_700_000_000_000
MINUTE = 60_000


class Clock:
    """The clocks of the service, which a test sets forward."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._ahead_ms = 0

    def time_ns(self) -> int:
        return time.time_ns() + self._ahead_ms * 1_000_000

    def let_pass(self, ms: int) -> None:
        self._ahead_ms += ms
        self._service.pass_time(ms)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def clock(service: Service, monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(service)
    monkeypatch.setattr("controller.clocks.time", clock)
    return clock


@pytest.fixture
def night(open_shop: Open, clock: Clock) -> Api:
    """A stream that `slow` holds from the first mark on, for a minute, and `late` after that."""
    shop = open_shop(aggregation_timeout_ms=None, hold_limit_ms=None)
    for writer in ("slow", "late", "fast"):
        shop.note(writer, NOW, 1)
    return shop


def _hold(shop: Api, clock: Clock, *, since: int) -> None:
    """Let a minute pass in which `fast` goes on."""
    for second in range(5, 65, 5):
        shop.note("fast", since + second * 1_000)
        clock.let_pass(5_000)


def _listed(shop: Api, **query: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = shop.get("holds", **query)["holds"]
    return found


def _let_go(shop: Api, time: int) -> None:
    for writer in ("slow", "late"):
        shop.note(writer, time)


def test_spans_are_listed_with_the_one_that_goes_on_and_page_by_page(
    night: Api, clock: Clock
) -> None:
    _hold(night, clock, since=NOW)
    (current,) = _listed(night)
    assert (current["end"], current["others"]) == (None, 1)
    _let_go(night, NOW + MINUTE)
    _hold(night, clock, since=NOW + MINUTE)
    night.note("late", NOW + 2 * MINUTE)
    night.note("slow", NOW + 2 * MINUTE)
    second, first = _listed(night)
    assert (first["writer"], second["writer"]) == ("late", "slow")
    assert first["until_ms"] <= second["since_ms"]
    assert (first["watermark"], first["reached"]) == (NOW, NOW + MINUTE)
    assert first["held_ms"] == pytest.approx(MINUTE, abs=6_000)
    page = night.get("holds", limit=1)
    assert page["holds"] == [second]
    last = night.get("holds", limit=1, cursor=page["cursor"])
    assert (last["holds"], last["cursor"]) == ([first], None)
    assert _listed(night, until=first["until_ms"]) == [first]
    assert _listed(night, since=first["until_ms"]) == [second]


def test_the_streams_that_were_held_are_added_up(
    night: Api, clock: Clock, open_shop: Open
) -> None:
    never = open_shop()
    never.note("alone", NOW, 1)

    def held(**query: object) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = night.client.get(
            "/v1/holds", params={name: str(one) for name, one in query.items()}
        ).json()["streams"]
        assert never.name not in {one["stream"] for one in found}
        assert [one["held_ms"] for one in found] == sorted(
            (one["held_ms"] for one in found), reverse=True
        )
        return [one for one in found if one["stream"] == night.name]

    _hold(night, clock, since=NOW)
    (mine,) = held()
    assert mine["spans"] == 1
    _let_go(night, NOW + MINUTE)
    _hold(night, clock, since=NOW + MINUTE)
    (mine,) = held()
    assert mine["spans"] == 2
    spans = _listed(night)
    assert mine["held_ms"] == pytest.approx(sum(one["held_ms"] for one in spans), abs=5_000)
    since = spans[-1]["since_ms"] + MINUTE // 2
    (clipped,) = held(since=since, until=since + 10_000)
    assert (clipped["held_ms"], clipped["spans"]) == (10_000, 1)
    assert clipped["longest"] == spans[-1]


def test_it_is_exact_when_a_time_was_complete(night: Api, clock: Clock) -> None:
    _hold(night, clock, since=NOW)
    _let_go(night, NOW + MINUTE)
    span = _listed(night)[0]
    marks = {one["lower"]: one["marked_ms"] for one in night.get("marks")["marks"]}
    for asked, completed_ms in (
        (NOW, marks[NOW]),
        (NOW + 1, span["until_ms"]),
        (NOW + MINUTE, marks[NOW + MINUTE]),
    ):
        found = night.get("marks/at", time=asked)
        assert (found["completed_ms"], found["completed_exact"]) == (completed_ms, True)
    found = night.get("marks/at", time=NOW + MINUTE + 1)
    assert (found["completed_ms"], found["completed_exact"]) == (None, False)


def test_a_night_is_drawn_by_steps(night: Api, clock: Clock) -> None:
    since = night.get("marks")["marks"][0]["marked_ms"]
    _hold(night, clock, since=NOW)
    _let_go(night, NOW + MINUTE)
    for second in range(10):
        for writer in ("fast", "slow", "late"):
            night.note(writer, NOW + MINUTE + second * 1_000)
        clock.let_pass(1_000)
    newest = night.get("marks")["marks"][-1]["marked_ms"]
    in_force = night.get("marks/history", since=newest - 1, step_ms=86_400_000)
    assert in_force["marked_ms"][0] < newest - 1 < newest == in_force["marked_ms"][-1]
    steps = night.get("marks/history", since=since, step_ms=20_000)
    marks = {one["revision"]: one for one in night.get("marks")["marks"]}
    for marked_ms, revision, lower in zip(
        steps["marked_ms"], steps["revision"], steps["lower"], strict=True
    ):
        assert (marks[revision]["marked_ms"], marks[revision]["lower"]) == (marked_ms, lower)
    assert steps["revision"] == sorted(steps["revision"])
    assert steps["revision"][-1] == max(marks)
    assert all(later - before >= 1 for before, later in pairwise(steps["marked_ms"]))
    assert max(filter(None, steps["stood_ms"])) == pytest.approx(MINUTE, abs=6_000)
    assert max(filter(None, steps["age_ms"])) > MINUTE
    night.post("seal", position={"0": 1})
    assert night.watermark == END_OF_TIME
    sealed = night.get("marks/history", since=since, step_ms=20_000)
    assert sealed["revision"] == steps["revision"]
    assert sealed["sealed_ms"] == night.get("marks")["marks"][-1]["marked_ms"]


def test_trouble_comes_first_with_counts_and_what_is_looked_for(
    night: Api, clock: Clock, open_shop: Open
) -> None:
    quiet = open_shop()
    quiet.note("alone", NOW, 1)
    _hold(night, clock, since=NOW)
    clock.let_pass(2_000)

    def ask(**query: str) -> httpx.Response:
        return night.client.get("/v1/streams", params={"order": "trouble", **query})

    page = ask().json()
    assert page["streams"][0]["judged"]["state"] == "held"
    assert night.name in {one["stream"] for one in page["streams"]}
    assert page["counts"]["held"] >= 1
    assert sum(page["counts"].values()) >= 2
    found = ask(q="SLOW").json()["streams"]
    assert night.name in {one["stream"] for one in found}
    assert quiet.name not in {one["stream"] for one in found}
    assert {one["judged"]["state"] for one in ask(state="held").json()["streams"]} == {"held"}
    assert ask(limit="1").json()["more"] is True
    plain = night.client.get(
        "/v1/streams", params={"order": "trouble"}, headers={"accept-encoding": "identity"}
    )
    assert "content-encoding" not in plain.headers
    assert plain.json()["counts"] == ask().json()["counts"]


def test_old_spans_go_and_those_of_a_stream_that_has_too_many(
    service: Service, night: Api, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hold(minute: int) -> None:
        _hold(night, clock, since=NOW + minute * MINUTE)
        _let_go(night, NOW + (minute + 1) * MINUTE)

    async def forget(before_ms: int, most: int) -> None:
        work = partial(forget_holds, before_ms=before_ms, most=most)
        await service.app.parts.sequencer.submit(partial(Batch.write, work=work))

    monkeypatch.setattr("controller.store.holds.MOST", 2)
    monkeypatch.setattr("controller.store.holds._AT_ONCE", 3)
    hold(0)
    hold(1)
    second, first = _listed(night)
    hold(2)
    third, *others = _listed(night)
    assert others == [second]
    service.run(forget(second["until_ms"], most=9))
    assert _listed(night) == [third, second]
    service.run(forget(third["until_ms"], most=0))
    assert _listed(night) == [third, second]
    service.run(forget(third["until_ms"], most=9))
    assert _listed(night) == [third]
    assert first["until_ms"] <= second["since_ms"]
