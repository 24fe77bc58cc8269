"""What the calls of a writer's life answer over HTTP; the model judges what they do to marks."""

from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Api, Open
from tests.unit.conftest import Serve
from tidegauge.event_time import END_OF_TIME

SECONDS = 1_704_110_400
NEVER = 2**62


def test_registering_returns_where_to_go_on_and_the_watermark_waits_there(shop: Api) -> None:
    shop.note("api-2", NOON, 10)
    assert shop.says("api-1", "register") == {
        "incarnation": 1,
        "time": NOON,
        "watermark": NOON,
        "state": "joining",
        "position": {},
        "beat_ms": 20_000,
    }
    assert shop.note("api-2", NOON + MINUTE, 20) == {"watermark": NOON, "state": "active"}
    answer = shop.note("api-1", NOON + MINUTE, 5, incarnation=1)
    assert answer == {"watermark": NOON + MINUTE, "state": "active"}


def test_a_first_time_counts_as_a_report_with_nothing_written(shop: Api) -> None:
    answer = shop.says("api-1", "register", time=NOON)
    assert (answer["time"], answer["watermark"], answer["state"]) == (NOON, NOON, "active")
    assert shop.mark == (NOON, {"0": 0})


def test_a_first_time_that_is_refused_refuses_the_registration(shop: Api) -> None:
    refused = shop.hears("api-1", "register", time=NEVER)
    assert refused == {
        "status": 409,
        "code": "time_in_future",
        "time": NEVER,
        "server_time": refused["server_time"],
        "max_future_skew_ms": 3_600_000,
    }
    assert shop.states() == {}
    assert shop.says("api-1", "register")["incarnation"] == 1


def test_seconds_are_hinted_at_when_registering_and_leaving(shop: Api) -> None:
    hint = f"time {SECONDS} lies in early 1970: are these seconds? Times are milliseconds"
    assert shop.says("api-1", "register", time=SECONDS)["hint"] == hint
    assert shop.says("api-1", "leave", time=SECONDS, incarnation=1)["hint"] == hint


def test_an_incarnation_that_leaves_no_room_for_others_is_refused(shop: Api) -> None:
    shop.note("api-1", NOON, 1)
    for call in ("note-time", "leave"):
        refused = shop.hears("api-1", call, time=NOON, position={"0": 1}, incarnation=2**63 - 1)
        assert (refused["status"], refused["code"]) == (422, "invalid_request")
        assert refused["errors"][0]["field"] == "incarnation"
    assert shop.says("api-1", "register")["incarnation"] == 1


def test_a_last_report_is_taken_like_any_other_also_of_a_new_partition(open_shop: Open) -> None:
    shop = open_shop(max_segments=2)
    shop.note("api-1", NOON, 40)
    shop.note("api-2", NOON + MINUTE, 7)
    left = shop.says("api-1", "leave", time=NOON + 1, position={"5": 3})
    assert (left["state"], left["time"], left["position"]) == (
        "left",
        NOON + 1,
        {"0": 40, "5": 3},
    )
    assert shop.mark == (NOON + MINUTE, {"0": 40, "5": 3})


def test_a_refused_last_report_refuses_the_leave(shop: Api) -> None:
    shop.note("api-1", NOON, 40)
    for last, code in (
        ({"time": NOON - 1, "position": {"0": 41}}, "invalid_time"),
        ({"time": NOON, "position": {"0": 39}}, "invalid_position"),
        ({"time": NOON, "position": {"6": 3}}, "invalid_position"),
        ({"position": {"0": 41}}, "invalid_request"),
    ):
        assert shop.hears("api-1", "leave", **last)["code"] == code
    assert shop.hears("api-1", "leave", position={"0": 41})["errors"] == [
        {"field": "time", "message": "a last report has a time; send both or none"}
    ]
    assert shop.states() == {"api-1": "active"}


def test_writers_are_listed_by_state_page_by_page(open_shop: Open) -> None:
    shop = open_shop(aggregation_timeout_ms=None)
    slow = [f"slow-{number}" for number in range(1, 6)]
    for name in slow:
        shop.note(name, NOON, 1)
    for name in ("fast", "left-1", "left-2", "gone"):
        shop.note(name, NOON + MINUTE, 1)
    for name, call in (("left-1", "leave"), ("left-2", "leave"), ("gone", "expire")):
        shop.says(name, call)
    shop.says("new", "register")
    expected = {
        "joining": ["new"],
        "active": ["fast"],
        "behind": slow,
        "expired": ["gone"],
        "left": ["left-1", "left-2"],
    }
    for state, names in expected.items():
        assert [one["writer"] for one in shop.writers(state=state, limit=2)] == names
    two = shop.client.get(f"{shop.path}/writers?state=left&state=joining").json()["writers"]
    assert [one["writer"] for one in two] == ["left-1", "left-2", "new"]
    assert len(list(shop.writers(limit=3))) == 10
    counts = {state: len(names) for state, names in expected.items()}
    assert shop.explanation()["states"] == counts


def test_a_page_goes_on_after_its_last_writer_was_forgotten(open_shop: Open) -> None:
    shop = open_shop(writer_retention_ms=None)
    for name in ("a", "b", "c", "d"):
        shop.note(name, NOON, 1)
    page = shop.get("writers", limit=2)
    shop.says("b", "leave")
    shop.change(writer_retention_ms=0)
    wait_until(lambda: "b" not in shop.states())
    rest = shop.get("writers", cursor=page["cursor"])
    assert [one["writer"] for one in rest["writers"]] == ["c", "d"]


def test_lowering_min_writers_lets_the_first_mark_out(open_shop: Open) -> None:
    shop = open_shop(min_writers=2)
    shop.note("api-1", NOON, 1)
    assert shop.watermark is None
    shop.change(min_writers=1)
    wait_until(lambda: shop.watermark == NOON)


def test_a_stream_of_several_jobs_ends_with_the_last_of_their_sources(serve: Serve) -> None:
    with serve() as log:
        log.create(log="external", min_writers=3)
        for name, offset in (("a", 5), ("b", 7), ("c", 2)):
            log.client.post(f"{log.path}/writers/{name}/register", json={})
            body = {"time": NOON, "position": {"0": offset}, "incarnation": 1}
            log.client.post(f"{log.path}/writers/{name}/note-time", json=body)
        a, b, c = (f"{log.path}/writers/{name}" for name in "abc")
        for writer in (a, c):
            log.client.post(f"{writer}/leave", json={"incarnation": 1, "ended": True})
        log.client.post(f"{c}/register", json={})  # it is not over after all
    with serve() as log:
        ended = log.json(log.client.post(f"{b}/leave", json={"incarnation": 1, "ended": True}))
        assert (ended["final"], ended["not_ended"]) == (False, ["c"])
        seen = log.json(log.client.get(f"{log.path}/watermark"))["explanation"]
        assert "the stream is sealed once 'c' has ended, as 2 others have" in seen["sentence"]
        sealed = log.client.post(f"{c}/leave", json={"incarnation": 2, "ended": True})
        assert log.json(sealed)["watermark"] == END_OF_TIME
        mark = log.json(log.client.get(f"{log.path}/watermark"))["mark"]
        assert (mark["final"], mark["cut"]) == (True, {"0": 7})


def test_the_leave_that_sealed_a_stream_may_be_repeated(shop: Api) -> None:
    shop.note("a", NOON, 1)
    last = {"time": NOON + 1, "position": {"0": 2}, "ended": True}
    for _ in range(2):  # the first answer may be lost
        assert shop.post("writers/a/leave", **last)["final"] is True
    assert shop.hears("b", "leave", **last)["code"] == "unknown_writer"


def test_a_stream_ends_where_as_many_writers_as_have_ended_are_enough(shop: Api) -> None:
    shop.change(min_writers=2)
    shop.note("a", NOON, 1)
    shop.post("writers/a/leave", ended=True)
    explained = shop.get("watermark")["explanation"]
    assert explained["command"] == f"tidegauge configure {shop.name} --min-writers 1"
    shop.change(min_writers=1)
    assert shop.get("watermark")["final"] is True


def test_a_stream_that_expects_more_writers_does_not_end_with_the_first(shop: Api) -> None:
    shop.change(min_writers=2)
    shop.note("a", NOON, 1)
    left = shop.post("writers/a/leave", ended=True)
    assert (left["final"], left["not_ended"]) == (False, [])
    assert (
        "1 of the 2 writers required by min_writers has ended"
        in shop.get("watermark")["explanation"]["sentence"]
    )
    shop.note("b", NOON, 3)
    assert shop.post("writers/b/leave", ended=True)["final"] is True
