"""The life of a writer, call by call: register, note time, leave, expire, be forgotten."""

import pytest

from tests.patience import wait_until
from tests.service.shop import MINUTE, NOON, Open


def test_registering_tells_where_to_go_on_and_the_watermark_waits_there(
    open_shop: Open,
) -> None:
    shop = open_shop()
    shop.notes("api-2", NOON, 10)
    assert shop.says("api-1", "register") == {
        "incarnation": 1,
        "time": NOON,
        "watermark": NOON,
        "state": "joining",
        "position": {},
        "beat_ms": 20_000,
    }
    assert shop.notes("api-2", NOON + MINUTE, 20) == {"watermark": NOON, "state": "active"}
    assert shop.notes("api-1", NOON + MINUTE, 5, incarnation=1) == {
        "watermark": NOON + MINUTE,
        "state": "active",
    }


def test_a_first_time_counts_as_a_report_with_nothing_written(open_shop: Open) -> None:
    shop = open_shop()
    assert shop.says("api-1", "register", time=NOON) == {
        "incarnation": 1,
        "time": NOON,
        "watermark": NOON,
        "state": "active",
        "position": {},
        "beat_ms": 20_000,
    }
    assert shop.mark == (NOON, {"0": 0})


def test_a_first_time_that_is_refused_refuses_the_registration(open_shop: Open) -> None:
    shop = open_shop()
    refused = shop.hears("api-1", "register", time=2**62)
    assert (refused["status"], refused["code"]) == (409, "time_in_future")
    assert shop.states() == {}
    assert shop.says("api-1", "register")["incarnation"] == 1


def test_seconds_are_hinted_at_when_registering_and_leaving(open_shop: Open) -> None:
    shop = open_shop()
    hint = "time 1704110400 lies in early 1970: are these seconds? Times are milliseconds"
    assert shop.says("api-1", "register", time=1_704_110_400)["hint"] == hint
    left = shop.says("api-1", "leave", time=1_704_110_400, incarnation=1)
    assert left["hint"] == hint


def test_registering_keeps_the_position_and_nothing_else(open_shop: Open) -> None:
    shop = open_shop()
    shop.says("api-1", "register")
    shop.notes("api-1", NOON + MINUTE, 40, incarnation=1)
    assert shop.says("api-1", "register") == {
        "incarnation": 2,
        "time": NOON + MINUTE,
        "watermark": NOON + MINUTE,
        "state": "joining",
        "position": {"0": 40},
        "beat_ms": 20_000,
    }
    assert shop.notes("api-1", NOON, 0, incarnation=2)["state"] == "active"
    assert shop.notes("api-1", NOON + 2 * MINUTE, 0, incarnation=2)["state"] == "active"
    assert shop.mark == (NOON + 2 * MINUTE, {"0": 40})


def test_a_registered_writer_has_to_name_its_incarnation(open_shop: Open) -> None:
    shop = open_shop()
    shop.says("api-1", "register")
    conflict = {"status": 409, "writer": "api-1", "incarnation": 1}
    for call in ("note-time", "leave"):
        body = {"time": NOON, "position": {"0": 1}}
        required = {"code": "incarnation_required"} | conflict
        assert shop.hears("api-1", call, **body) == required
        assert shop.hears("api-1", call, incarnation=0, **body) == required | {
            "code": "writer_fenced"
        }
    assert shop.states() == {"api-1": "joining"}


def test_a_report_under_a_newer_incarnation_starts_a_fresh_record(open_shop: Open) -> None:
    shop = open_shop()
    shop.notes("api-1", NOON + MINUTE, 40)
    assert shop.notes("api-1", NOON, 7, incarnation=3)["state"] == "active"
    assert shop.hears("api-1", "note-time", time=NOON, position={}, incarnation=2) == {
        "status": 409,
        "code": "writer_fenced",
        "writer": "api-1",
        "incarnation": 3,
    }
    assert shop.says("api-1", "register")["incarnation"] == 4


def test_an_incarnation_that_leaves_no_room_for_others_is_refused(open_shop: Open) -> None:
    shop = open_shop()
    for call in ("note-time", "leave"):
        shop.notes("api-1", NOON, 1)
        refused = shop.hears("api-1", call, time=NOON, position={"0": 1}, incarnation=2**63 - 1)
        assert (refused["status"], refused["code"]) == (422, "invalid_request")
        assert refused["errors"][0]["field"] == "incarnation"
    assert shop.says("api-1", "register")["incarnation"] == 1


def test_leaving_with_a_last_report_lets_the_others_go_on(open_shop: Open) -> None:
    shop = open_shop()
    shop.notes("api-1", NOON, 40)
    shop.notes("api-2", NOON + MINUTE, 7)
    left = shop.says("api-1", "leave", time=NOON + 1, position={"0": 41})
    assert (left["state"], left["time"], left["position"]) == ("left", NOON + 1, {"0": 41})
    assert shop.mark == (NOON + MINUTE, {"0": 41})


def test_a_refused_last_report_refuses_the_leave(open_shop: Open) -> None:
    shop = open_shop()
    shop.notes("api-1", NOON, 40)
    assert shop.hears("api-1", "leave", time=NOON - 1, position={"0": 41}) == {
        "status": 409,
        "code": "invalid_time",
        "writer": "api-1",
        "time": NOON - 1,
        "stored_time": NOON,
    }
    refused = shop.hears("api-1", "leave", time=NOON, position={"0": 39})
    assert (refused["code"], refused["stored_position"]) == ("invalid_position", {"0": 40})
    assert shop.hears("api-1", "leave", position={"0": 41})["errors"] == [
        {"field": "time", "message": "a last report has a time; send both or none"}
    ]
    assert shop.states() == {"api-1": "active"}


def test_a_last_report_may_name_a_new_partition_like_any_other(open_shop: Open) -> None:
    shop = open_shop(max_segments=2)
    shop.notes("api-1", NOON, 40)
    shop.says("api-1", "leave", time=NOON + MINUTE, position={"5": 3})
    assert shop.mark == (NOON + MINUTE, {"0": 40, "5": 3})
    refused = shop.hears("api-1", "leave", time=NOON + MINUTE, position={"6": 3})
    assert refused["code"] == "invalid_position"


@pytest.mark.parametrize("call", ["leave", "expire"])
def test_nobody_knows_a_writer_that_never_spoke(open_shop: Open, call: str) -> None:
    assert open_shop().hears("nobody", call) == {
        "status": 404,
        "code": "unknown_writer",
        "writer": "nobody",
    }


def test_expire_by_hand_drops_a_writer_and_keeps_what_it_reported(open_shop: Open) -> None:
    shop = open_shop(aggregation_timeout_ms=None)
    shop.notes("api-1", NOON, 40)
    shop.notes("api-2", NOON + MINUTE, 7)
    expired = shop.says("api-1", "expire")
    assert (expired["state"], expired["watermark"]) == ("expired", NOON + MINUTE)
    assert shop.mark == (NOON + MINUTE, {"0": 40})
    below = shop.notes("api-1", NOON + 1, 41)
    assert below == {"watermark": NOON + MINUTE, "state": "expired"}
    assert shop.notes("api-1", NOON + MINUTE + 1, 42)["state"] == "active"


def test_writers_are_listed_by_state_page_by_page(open_shop: Open) -> None:
    shop = open_shop(aggregation_timeout_ms=None)
    for number in range(1, 6):
        shop.notes(f"slow-{number}", NOON, 1)
    shop.notes("fast", NOON + MINUTE, 1)
    for name in ("left-1", "left-2", "gone"):
        shop.notes(name, NOON + MINUTE, 1)
    shop.says("left-1", "leave")
    shop.says("left-2", "leave")
    shop.says("gone", "expire")
    shop.says("new", "register")
    found = {
        state: [one["writer"] for one in shop.writers(state=state, limit=2)]
        for state in ("joining", "active", "behind", "expired", "left")
    }
    assert found == {
        "joining": ["new"],
        "active": ["fast"],
        "behind": ["slow-1", "slow-2", "slow-3", "slow-4", "slow-5"],
        "expired": ["gone"],
        "left": ["left-1", "left-2"],
    }
    two = shop.client.get(f"{shop.path}/writers?state=left&state=joining").json()["writers"]
    assert [one["writer"] for one in two] == ["left-1", "left-2", "new"]
    assert len(list(shop.writers(limit=3))) == 10
    assert shop.explanation()["states"] == {name: len(some) for name, some in found.items()}


def test_a_page_goes_on_after_its_last_writer_was_forgotten(open_shop: Open) -> None:
    shop = open_shop(writer_retention_ms=None)
    for name in ("a", "b", "c", "d"):
        shop.notes(name, NOON, 1)
    page = shop.get("writers", limit=2)
    shop.says("b", "leave")
    shop.client.patch(
        shop.path, json={"writer_retention_ms": 0}, headers={"If-Match": "*"}
    ).raise_for_status()
    wait_until(lambda: "b" not in shop.states())
    rest = shop.get("writers", cursor=page["cursor"])
    assert [one["writer"] for one in rest["writers"]] == ["c", "d"]


def test_a_newcomer_starts_above_every_incarnation_that_was_forgotten(
    open_shop: Open,
) -> None:
    shop = open_shop(writer_retention_ms=0)
    shop.notes("api-1", NOON, 1, incarnation=7)
    shop.says("api-1", "leave", incarnation=7)
    assert shop.says("api-2", "register")["incarnation"] == 8
    shop.notes("api-1", NOON, 1)
    assert shop.says("api-1", "register")["incarnation"] == 8
    zombie = shop.hears("api-1", "note-time", time=NOON, position={}, incarnation=7)
    assert (zombie["code"], zombie["incarnation"]) == ("writer_fenced", 8)


def test_lowering_min_writers_lets_the_first_mark_out(open_shop: Open) -> None:
    shop = open_shop(min_writers=2)
    shop.notes("api-1", NOON, 1)
    assert shop.watermark is None
    shop.client.patch(
        shop.path, json={"min_writers": 1}, headers={"If-Match": "*"}
    ).raise_for_status()
    wait_until(lambda: shop.watermark == NOON)


def test_a_time_too_far_ahead_of_the_clock_is_refused_with_both(open_shop: Open) -> None:
    shop = open_shop()
    refused = shop.hears("api-1", "note-time", time=NOON * 1_000, position={})
    assert refused == {
        "status": 409,
        "code": "time_in_future",
        "time": NOON * 1_000,
        "server_time": refused["server_time"],
        "max_future_skew_ms": 3_600_000,
    }
    ahead = refused["server_time"] + 3_000_000
    assert shop.notes("api-1", ahead, 1) == {"watermark": ahead, "state": "active"}
    assert shop.states() == {"api-1": "active"}
