"""What goes wrong with writers, and the exact answers that docs/reference/writers.md gives for it."""

from typing import Any

from tests.service.api import MINUTE, NOON, Api, Open

FENCED = {"status": 409, "code": "writer_fenced", "writer": "api-1", "incarnation": 2}


def test_a_restarted_producer_holds_the_watermark_until_it_reports(shop: Api) -> None:
    shop.note("api-2", NOON, 7)
    assert shop.says("api-1", "register") == {
        "incarnation": 1,
        "time": NOON,
        "watermark": NOON,
        "state": "joining",
        "position": {},
        "beat_ms": 20_000,
    }
    noted = shop.note("api-1", NOON, 40, incarnation=1)
    assert noted == {"watermark": NOON, "state": "active"}
    shop.note("api-2", NOON + MINUTE, 7)
    assert shop.says("api-1", "register") == {
        "incarnation": 2,
        "time": NOON,
        "watermark": NOON,
        "state": "joining",
        "position": {"0": 40},
        "beat_ms": 20_000,
    }
    assert shop.watermark == NOON
    assert shop.note("api-1", NOON + MINUTE, 60, incarnation=2) == {
        "watermark": NOON + MINUTE,
        "state": "active",
    }
    assert shop.mark == (NOON + MINUTE, {"0": 60})


def test_a_zombie_is_fenced_whatever_it_says(open_shop: Open) -> None:
    shop = open_shop(log="embedded")
    shop.says("api-1", "register")
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


def test_a_clock_that_jumps_back_is_refused_until_it_has_caught_up(shop: Api) -> None:
    shop.note("api-1", NOON, 40)
    assert shop.hears("api-1", "note-time", time=NOON - MINUTE, position={"0": 41}) == {
        "status": 409,
        "code": "invalid_time",
        "writer": "api-1",
        "time": NOON - MINUTE,
        "stored_time": NOON,
    }
    assert shop.mark == (NOON, {"0": 40})
    assert shop.note("api-1", NOON, 41)["state"] == "active"


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
