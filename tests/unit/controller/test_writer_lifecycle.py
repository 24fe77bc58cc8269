"""What the calls of a writer's life answer over HTTP; the model judges what they do to marks."""

from tests.patience import wait_until
from tests.service.api import MINUTE, NOON, Api, Open
from tests.unit.conftest import Serve
from tidegauge.event_time import END_OF_TIME

SECONDS = 1_704_110_400


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
    assert (left["time"], left["position"]) == (NOON + 1, {"0": 40, "5": 3})
    assert shop.mark == (NOON + MINUTE, {"0": 40, "5": 3})


def test_a_refused_last_report_refuses_the_leave(shop: Api) -> None:
    shop.note("api-1", NOON, 40)
    for last, code in (
        ({"time": NOON - 1, "position": {"0": 41}}, "invalid_time"),
        ({"time": NOON, "position": {"0": 39}}, "invalid_position"),
        ({"time": NOON, "position": {"6": 3}}, "invalid_position"),
    ):
        assert shop.hears("api-1", "leave", **last)["code"] == code
    assert shop.hears("api-1", "leave", position={"0": 41})["errors"] == [
        {"field": "time", "message": "a last report has a time; send both or none"}
    ]
    assert shop.states() == {"api-1": "active"}


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


def test_a_stream_ends_once_as_many_writers_have_ended_as_are_enough(shop: Api) -> None:
    shop.change(min_writers=2)
    shop.note("a", NOON, 1)
    left = shop.post("writers/a/leave", ended=True)
    assert (left["final"], left["not_ended"]) == (False, [])
    explained = shop.explanation()
    assert "1 of the 2 writers required by min_writers has ended" in explained["sentence"]
    assert explained["command"] == f"tidegauge configure {shop.name} --min-writers 1"
    shop.change(min_writers=1)
    assert shop.get("watermark")["final"] is True
