"""The state of a stream, as the command line, the page at / and the dashboard say it."""

from typing import Any

import pytest

from tests.listed_streams import NOW, STATES, brief_of
from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.states import (
    Judgement,
    Pace,
    State,
    describe_state,
    judgement_of,
    trouble_first,
)
from tidegauge.wire.streams import BriefStreamList
from tidegauge_cli.tables import judge, table_of_streams


@pytest.mark.parametrize(
    ("given", "state", "tone"),
    [
        ({"marked_ms": NOW - 9_000}, "moving", "green"),
        ({"marked_ms": NOW - 11_000}, "held", "amber"),
        ({"marked_ms": NOW - 61_000}, "held", "red"),
        ({"marked_ms": None, "revision": 0, "watermark": None}, "held", "red"),
        ({"explained": {"reason": "min_writers"}}, "few", "amber"),
        ({"explained": {"reason": "caught_up", "hint": "seconds?"}}, "odd", "amber"),
        ({"explained": {"reason": "nobody_live"}}, "nobody", "amber"),
        ({"explained": {"reason": "caught_up"}}, "moving", "green"),
        ({"explained": {"reason": "caught_up"}, "marked_ms": NOW - 11_000}, "quiet", "grey"),
        ({"explained": {"silent_ms": 660_000}, "marked_ms": NOW - 661_000}, "silent", "grey"),
        ({"explained": {"silent_ms": 660_000, "hint": "seconds?"}}, "odd", "amber"),
        ({"explained": {"silent_ms": 9, "waiting_count": 0}, "marked_ms": 0}, "held", "red"),
        ({"explained": {"reason": "no_writers"}}, "unused", "grey"),
        ({"final": True, "watermark": END_OF_TIME}, "ended", "grey"),
        ({"watermark": NOW - 301_000}, "late", "amber"),
        ({"watermark": NOW - 301_000, "follows_clock": False}, "moving", "green"),
    ],
)
def test_a_stream_is_in_one_state(given: Any, state: State, tone: str) -> None:
    found = judgement_of(brief_of(**given), Pace(), now_ms=NOW)
    assert (found.state, found.tone) == (state, tone)


def test_a_stream_of_old_events_is_not_late_before_it_had_time_to_be() -> None:
    old = {"watermark": 1_000_000_000_000, "explained": {"reason": "caught_up"}}
    assert judgement_of(brief_of(created_ms=NOW - 1_000, **old), now_ms=NOW).state == "moving"
    assert judgement_of(brief_of(created_ms=NOW - 301_000, **old), now_ms=NOW).state == "late"


def test_a_stream_of_rare_marks_is_held_later() -> None:
    brief = brief_of(marked_ms=NOW - 50_000)
    assert judgement_of(brief, Pace(distance_ms=15_000), now_ms=NOW).state == "moving"
    assert judgement_of(brief, Pace(distance_ms=12_000), now_ms=NOW).state == "held"


def test_who_just_began_to_hold_does_not_hold_since_the_last_mark() -> None:
    def found(marked_ms: int, held_ms: int) -> Judgement:
        brief = brief_of(marked_ms=marked_ms, explained={"held_ms": held_ms})
        return judgement_of(brief, Pace(), now_ms=NOW)

    assert found(NOW - 68_000, 12_000) == Judgement("held", "amber", NOW - 12_000)
    assert found(NOW - 11_000, 12_000) == Judgement("held", "amber", NOW - 11_000)
    assert found(NOW - 68_000, 2_000).state == "moving"


def test_a_late_stream_that_gains_is_catching_up() -> None:
    brief = brief_of(watermark=NOW - 900_000)
    assert judgement_of(brief, Pace(gain=1.3), now_ms=NOW).state == "catching"
    assert judgement_of(brief, Pace(gain=1.1), now_ms=NOW).state == "late"


def test_trouble_comes_first_and_what_stands_longest() -> None:
    judgements = {
        "c": Judgement("moving", "green"),
        "b": Judgement("held", "amber", NOW - 20),
        "a": Judgement("quiet", "grey", NOW - 900),
        "d": Judgement("held", "red", NOW - 99),
        "e": Judgement("silent", "grey", NOW - 9_000),
        "f": Judgement("late", "amber"),
    }
    assert trouble_first(judgements) == ["d", "b", "f", "e", "c", "a"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"marked_ms": NOW - 53_000}, "held by slow for 53s"),
        (
            {"marked_ms": NOW - 53_000, "explained": {"holder_count": 3}},
            "held by slow and 2 more for 53s",
        ),
        (
            {"marked_ms": NOW - 53_000, "explained": {"hint": "a wrong clock?"}},
            "held by slow for 53s, odd times",
        ),
        ({"explained": {"reason": "caught_up"}, "marked_ms": NOW - 11_000}, "quiet for 11s"),
        ({"explained": {"silent_ms": 660_000}}, "silent for 11m"),
        ({"explained": {"reason": "caught_up", "hint": "seconds?"}}, "odd times"),
        ({"explained": {"reason": "no_writers"}}, "unused"),
        ({"final": True, "watermark": END_OF_TIME}, "ended"),
        ({}, "moving"),
        ({"explained": {"reason": "min_writers"}, "marked_ms": NOW + 1}, "too few writers"),
    ],
)
def test_a_line_says_the_state_and_who_is_to_blame_and_for_how_long(
    given: Any, words: str
) -> None:
    brief = brief_of(**given)
    assert describe_state(brief, judgement_of(brief, now_ms=NOW), now_ms=NOW) == words


def test_the_list_of_the_command_line_begins_with_trouble() -> None:
    streams = [
        brief_of(stream="a/moving"),
        brief_of(stream="b/held", marked_ms=NOW - 53_000),
        brief_of(stream="c/quiet", marked_ms=NOW - 11_000, explained={"reason": "caught_up"}),
        brief_of(stream="d/few", explained={"reason": "min_writers", "states": STATES}),
    ]
    listed = judge(BriefStreamList(streams=streams, cursor=None, now_ms=NOW))
    rows = table_of_streams(listed).rows
    assert [(row[0].plain, row[3].plain) for row in rows] == [
        ("b/held", "held by slow for 53s"),
        ("d/few", "too few writers for 1s"),
        ("a/moving", "moving"),
        ("c/quiet", "quiet for 11s"),
    ]
