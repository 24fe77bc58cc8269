"""What goes wrong with writers, and the exact answers that docs/reference/writers.md gives for it."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Api, Open
from tidegauge.errors import InvalidTimeError, WriterFencedError

FENCED = {"status": 409, "code": "writer_fenced", "writer": "api-1", "incarnation": 2}


def test_a_restarted_producer_holds_the_watermark_until_it_reports(shop: Api) -> None:
    assert shop.says("api-1", "register") == {
        "incarnation": 1,
        "time": None,
        "watermark": None,
        "state": "joining",
        "position": {},
        "beat_ms": 20_000,
    }
    shop.note("api-1", NOON, 40, incarnation=1)
    shop.note("api-2", NOON + MINUTE, 7)
    assert shop.says("api-1", "register") == {
        "incarnation": 2,
        "time": NOON,
        "watermark": NOON,
        "state": "joining",
        "position": {"0": 40},
        "beat_ms": 20_000,
    }
    assert shop.mark == (NOON, {"0": 40})
    assert shop.note("api-1", NOON + MINUTE, 60, incarnation=2) == {
        "watermark": NOON + MINUTE,
        "state": "active",
    }
    assert shop.mark == (NOON + MINUTE, {"0": 60})


def test_what_a_crashed_producer_wrote_and_never_reported_lies_before_the_next_mark(
    open_shop: Open,
) -> None:
    shop = open_shop(log="embedded")
    crashed = shop.writer("api-1")
    crashed.write("never reported", key="k", event_time=NOON)
    crashed.flush()
    with shop.writer("api-1") as restarted:
        assert (restarted.incarnation, restarted.position) == (2, {0: 1})
        restarted.note_time(NOON + MINUTE)
        restarted.flush()
        assert shop.mark == (NOON + MINUTE, {"0": 1})
    crashed.close()


def test_a_zombie_is_fenced_whatever_it_says(open_shop: Open) -> None:
    shop = open_shop(log="embedded")
    zombie = shop.writer("api-1", first_time=NOON)
    zombie.open()
    shop.says("api-1", "register", time=NOON + MINUTE)
    report = {"time": NOON + 2 * MINUTE, "position": {}, "incarnation": 1}
    assert shop.hears("api-1", "note-time", **report) == FENCED
    assert shop.hears("api-1", "leave", incarnation=1) == FENCED
    many = {"reports": [report | {"stream": shop.name, "writer": "api-1"}]}
    (refused,) = shop.client.post("/v1/note-times", json=many).json()["results"]
    assert FENCED.items() <= refused.items()
    lines = shop.client.post(
        f"{shop.path}/events",
        params={"writer": "api-1", "incarnation": 1},
        content='{"key": "k", "value": "late"}\n',
        headers={"content-type": "application/x-ndjson"},
    )
    assert FENCED.items() <= lines.json().items()
    zombie.write("late", key="k")
    with pytest.raises(WriterFencedError) as fenced:
        zombie.close()
    assert fenced.value.incarnation == 2
    assert shop.mark == (NOON + MINUTE, {"0": 0})
    assert shop.client.get(shop.path).json()["tail"] == {"0": 0}


def test_a_registration_that_arrives_once_more_is_the_one_that_was_made(
    open_shop: Open,
) -> None:
    shop = open_shop(log="embedded")
    first, second = {"registration_id": "3f2a"}, {"registration_id": "8c41"}
    assert shop.says("api-1", "register", **first)["incarnation"] == 1
    assert shop.says("api-1", "register", **first)["incarnation"] == 1
    assert shop.note("api-1", NOON, 0, incarnation=1)["state"] == "active"
    begun = shop.post("transactions", writer="api-1", incarnation=1)
    assert shop.says("api-1", "register", **first) == {
        "incarnation": 1,
        "time": NOON,
        "watermark": NOON,
        "state": "active",
        "position": {},
        "beat_ms": 20_000,
    }
    assert shop.get(f"transactions/{begun['id']}")["state"] == "open"
    assert shop.note("api-1", NOON + MINUTE, 0, incarnation=1)["state"] == "active"
    assert shop.says("api-1", "register", **second)["incarnation"] == 2
    assert shop.says("api-1", "register", **first)["incarnation"] == 1
    assert shop.note("api-1", NOON + MINUTE, 0, incarnation=2)["state"] == "active"
    assert shop.hears("api-1", "note-time", time=NOON + MINUTE, incarnation=1) == FENCED


def test_an_unknown_partition_is_refused_after_all_else_is_right(shop: Api) -> None:
    for _ in range(2):
        shop.says("api-1", "register")
    shop.note("api-1", NOON, 4, incarnation=2)
    unknown: dict[str, Any] = {"time": NOON, "position": {"3": 1}}
    for call in ("note-time", "leave"):
        assert shop.hears("api-1", call, **unknown, incarnation=1) == FENCED
        assert shop.hears("api-1", call, **unknown)["code"] == "incarnation_required"
        earlier = shop.hears("api-1", call, **unknown | {"time": NOON - 1}, incarnation=2)
        assert earlier["code"] == "invalid_time"
        refused = shop.hears("api-1", call, **unknown, incarnation=2)
        assert refused["code"] == "invalid_position"
        assert (refused["segment"], refused["stored_position"]) == (3, {"0": 4})
        assert "of at most 1; raise max_segments" in refused["reason"]
    shop.post("seal", position={"0": 4})
    assert shop.hears("api-1", "note-time", **unknown)["code"] == "stream_sealed"


def test_a_zombie_of_a_forgotten_writer_is_fenced_by_the_next_registration(
    open_shop: Open,
) -> None:
    shop = open_shop(writer_retention_ms=0)
    for _ in range(2):
        shop.says("api-1", "register", time=NOON)
    shop.says("api-1", "leave", incarnation=2)
    assert shop.states() == {}
    assert shop.says("api-1", "register")["incarnation"] == 3
    zombie = shop.hears("api-1", "note-time", time=NOON, position={}, incarnation=2)
    assert zombie == FENCED | {"incarnation": 3}


def test_a_zombie_that_speaks_after_it_was_forgotten_does_not_let_a_later_one_in(
    open_shop: Open,
) -> None:
    shop = open_shop(writer_retention_ms=0)
    for _ in range(5):
        shop.says("api-1", "register", time=NOON)
    shop.says("api-1", "leave", incarnation=5)
    shop.note("api-1", NOON, 0, incarnation=2)
    assert shop.says("api-1", "register")["incarnation"] == 6
    zombie = shop.hears("api-1", "note-time", time=NOON, position={}, incarnation=5)
    assert zombie == FENCED | {"incarnation": 6}


def test_a_crash_loop_holds_the_watermark_for_one_timeout_and_no_longer(shop: Api) -> None:
    shop.note("steady", NOON, 1)
    first = shop.says("looping", "register")
    assert (first["state"], first["time"], first["watermark"]) == ("joining", NOON, NOON)
    shop.note("steady", NOON + MINUTE, 2)
    shop.until(
        lambda: bool(shop.says("looping", "register")["state"] == "expired"), beating="steady"
    )
    assert shop.mark == (NOON + MINUTE, {"0": 2})
    again = shop.says("looping", "register")
    assert (again["state"], again["time"]) == ("expired", None)
    below = shop.note("looping", NOON, 0, incarnation=again["incarnation"])
    assert below == {"watermark": NOON + MINUTE, "state": "expired"}
    above = shop.note("looping", NOON + MINUTE + 1, 0, incarnation=again["incarnation"])
    assert above == {"watermark": NOON + MINUTE, "state": "active"}


def test_a_process_that_worked_before_it_crashed_gets_one_more_try(shop: Api) -> None:
    shop.note("looping", NOON, 1)
    shop.note("steady", NOON + MINUTE, 2)
    shop.until(lambda: _is_expired(shop, "looping"), beating="steady")
    again = shop.says("looping", "register")
    assert (again["state"], again["time"]) == ("joining", NOON + MINUTE)
    shop.note("steady", NOON + 2 * MINUTE, 3)
    shop.until(lambda: _is_expired(shop, "looping"), beating="steady")
    assert shop.says("looping", "register")["state"] == "expired"
    assert shop.watermark == NOON + 2 * MINUTE


def _is_expired(shop: Api, writer: str) -> bool:
    return shop.states()[writer] == "expired"


def test_a_clock_that_jumps_back_is_refused_until_it_has_caught_up(shop: Api) -> None:
    with shop.reporter("api-1") as reporter:
        reporter.note_time(NOON, {0: 40})
        assert shop.hears(
            "api-1", "note-time", time=NOON - MINUTE, position={"0": 41}, incarnation=1
        ) == {
            "status": 409,
            "code": "invalid_time",
            "writer": "api-1",
            "time": NOON - MINUTE,
            "stored_time": NOON,
        }
        with pytest.raises(InvalidTimeError) as refused:
            reporter.note_time(NOON - MINUTE, {0: 41})
        assert refused.value.stored_time == NOON
        assert shop.mark == (NOON, {"0": 40})
        reporter.note_time(NOON, {0: 41})
    assert shop.states() == {"api-1": "active"}


def test_a_clock_that_jumped_back_before_a_restart_holds_and_never_lowers_the_watermark(
    shop: Api,
) -> None:
    shop.note("api-1", NOON, 40)
    shop.says("api-1", "register")
    back = shop.note("api-1", NOON - MINUTE, 41, incarnation=1)
    assert back == {"watermark": NOON, "state": "active"}
    shop.note("api-2", NOON + MINUTE, 7)
    shop.until(lambda: _is_expired(shop, "api-1"), beating="api-2")
    assert shop.mark == (NOON + MINUTE, {"0": 41})
    still = shop.note("api-1", NOON - 1, 42, incarnation=1)
    assert still == {"watermark": NOON + MINUTE, "state": "expired"}


def test_a_clock_far_ahead_is_refused_and_one_a_little_ahead_is_pointed_out(shop: Api) -> None:
    refused = shop.hears("api-1", "note-time", time=NOON * 1_000, position={"0": 1})
    assert (refused["status"], refused["code"]) == (409, "time_in_future")
    now = refused["server_time"]
    shop.note("api-1", now, 1)
    shop.note("skewed", now + 50 * MINUTE, 1)
    explained = shop.explanation()
    assert explained["hint"].startswith("Writer 'skewed' noted a time 49m ")
    assert explained["cure"].endswith("stop it and expire it")
    assert explained["command"] == f"tidegauge expire {shop.name} skewed"


def test_a_time_in_the_future_that_was_accepted_is_taken_back_only_while_others_hold(
    shop: Api,
) -> None:
    ahead = {"time": NOON * 1_000, "position": {"0": 1}}
    now = shop.hears("api-1", "note-time", **ahead)["server_time"]
    shop.note("api-1", now, 40)
    shop.note("skewed", now + 40 * MINUTE, 3)
    assert shop.watermark == now
    incarnation = shop.says("skewed", "register")["incarnation"]  # its clock is right now
    shop.note("skewed", now + 1, 5, incarnation=incarnation)
    shop.note("api-1", now + 2, 41)
    assert shop.watermark == now + 1
    shop.note("skewed", now + 40 * MINUTE, 6, incarnation=incarnation)
    shop.post("writers/api-1/expire")
    assert shop.mark == (now + 40 * MINUTE, {"0": 41})
    shop.says("api-1", "register")
    again = shop.note("api-1", now + MINUTE, 42, incarnation=1)
    assert again["watermark"] == now + 40 * MINUTE  # until then whatever it writes is late


def test_a_duplicate_name_is_fenced_by_whoever_registered_last(shop: Api) -> None:
    with (
        shop.reporter("api-1") as one,
        shop.reporter("api-1") as other,
    ):
        one_answer = shop.hears(
            "api-1", "note-time", time=NOON, position={"0": 1}, incarnation=1
        )
        assert one_answer == FENCED
        with pytest.raises(WriterFencedError) as fenced:
            one.note_time(NOON, {0: 1})
        assert fenced.value.incarnation == 2
        other.note_time(NOON, {0: 1})
    assert shop.mark == (NOON, {"0": 1})


def test_a_duplicate_name_without_registration_runs_into_its_own_reports(shop: Api) -> None:
    shop.note("api-1", NOON, 40)
    assert shop.hears("api-1", "note-time", time=NOON, position={"0": 30}) == {
        "status": 409,
        "code": "invalid_position",
        "segment": 0,
        "offset": 30,
        "reason": "the writer reported 40 before",
        "stored_position": {"0": 40},
    }
    shop.says("api-1", "register")
    assert shop.hears("api-1", "note-time", time=NOON, position={"0": 50}) == {
        "status": 409,
        "code": "incarnation_required",
        "writer": "api-1",
        "incarnation": 1,
    }


def test_a_fleet_that_is_redeployed_makes_nothing_late_and_loses_nobody(
    open_shop: Open,
) -> None:
    shop = open_shop(log="embedded", segments=2)
    names = ["api-1", "api-2", "api-3"]
    fleet = {name: shop.writer(name, first_time=NOON) for name in names}
    for writer in fleet.values():
        writer.open()
    for step, name in enumerate(names, start=1):
        for writer in fleet.values():
            writer.write("order", key=writer.name, event_time=NOON + step * MINUTE)
            writer.note_time(NOON + step * MINUTE)
            writer.flush()
        stood = shop.watermark
        fleet[name].close()
        fleet[name] = shop.writer(name)
        fleet[name].open()
        assert (fleet[name].incarnation, fleet[name].registered_time) == (2, stood)
        assert shop.states()[name] == "joining"
        assert shop.watermark == stood == NOON + step * MINUTE
    for writer in fleet.values():
        writer.note_time(NOON + 4 * MINUTE)
        writer.close()
    assert shop.states() == dict.fromkeys(names, "active")
    assert sum(shop.mark[1].values()) == 9
    assert shop.watermark == NOON + 4 * MINUTE


def test_a_fleet_whose_names_change_waits_one_timeout_for_the_old_ones(shop: Api) -> None:
    shop.note("api-old", NOON, 40)
    shop.note("api-new", NOON + MINUTE, 7)
    assert shop.watermark == NOON
    shop.until(lambda: shop.watermark == NOON + MINUTE, beating="api-new")
    assert shop.states() == {"api-new": "active", "api-old": "expired"}


def test_a_thousand_short_lived_pods_that_leave_hold_up_nobody(open_shop: Open) -> None:
    shop = open_shop(aggregation_timeout_ms=None)
    shop.note("steady", NOON, 1)
    pods = [f"pod-{number}" for number in range(1_000)]
    shop.many({"writer": pod, "time": NOON, "position": {"0": 1}} for pod in pods)
    with ThreadPoolExecutor(8) as nodes:
        last = {"time": NOON + MINUTE, "position": {"0": 9}}
        left = nodes.map(lambda pod: shop.says(pod, "leave", **last)["state"], pods)
        assert set(left) == {"left"}
    assert shop.explanation()["states"] == {
        "joining": 0,
        "active": 0,
        "behind": 1,
        "expired": 0,
        "left": 1_000,
    }
    shop.note("steady", NOON + 2 * MINUTE, 2)
    assert shop.mark == (NOON + 2 * MINUTE, {"0": 9})
    shop.change(writer_retention_ms=0)
    wait_until(lambda: shop.states() == {"steady": "active"})


def test_a_thousand_pods_that_vanish_are_dropped_together_after_one_timeout(shop: Api) -> None:
    pods = [f"pod-{number}" for number in range(1_000)]
    shop.many({"writer": pod, "time": NOON, "position": {"0": 1}} for pod in pods)
    shop.note("steady", NOON + MINUTE, 1_000)
    held = shop.explanation()
    assert (held["reason"], held["holder_count"], len(held["holders"])) == (
        "holding",
        1_000,
        10,
    )
    shop.until(lambda: shop.watermark == NOON + MINUTE, beating="steady")
    states = shop.explanation()["states"]
    assert (states["expired"], states["active"]) == (1_000, 1)
