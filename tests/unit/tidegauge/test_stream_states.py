"""The state of a stream, as the service decides it and the command line shows it."""

from typing import Any

import pytest

from tests.listed_streams import NOW, UNWATCHED, brief_of
from tidegauge.aggregation.changes import Paced
from tidegauge.explain.states import LABELS, TONES, State, Tone
from tidegauge.wire.streams import JudgedState
from tidegauge_cli.tables import describe_state


def judged(paced: Paced = UNWATCHED, **given: Any) -> JudgedState:
    found = brief_of(paced, **given).judged
    assert found is not None
    return found


def state_of(
    state: State, tone: Tone | None = None, since_ms: int | None = None
) -> JudgedState:
    return JudgedState(
        state=state,
        label=LABELS[state],
        tone=tone or TONES[state],
        since_ms=since_ms,
        marks_per_s=0.0,
    )


OLD: Any = {"watermark": 1_000_000_000_000, "explained": {"reason": "caught_up"}}


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
        ({"explained": {"reason": "sealed"}, "final": True}, "ended", "grey"),
        ({"watermark": NOW - 301_000}, "late", "amber"),
        ({"watermark": NOW - 301_000, "follows_clock": False}, "moving", "green"),
        # One of old events is not late before it had time to be.
        (OLD | {"created_ms": NOW - 1_000}, "moving", "green"),
        (OLD | {"created_ms": NOW - 301_000}, "late", "amber"),
        # One of rare marks is held later.
        ({"paced": Paced(mean_ms=15_000), "marked_ms": NOW - 50_000}, "moving", "green"),
        ({"paced": Paced(mean_ms=12_000), "marked_ms": NOW - 50_000}, "held", "amber"),
        # A late one that gains is catching up.
        ({"paced": Paced(gain=1.3), "watermark": NOW - 900_000}, "catching", "blue"),
        ({"paced": Paced(gain=1.1), "watermark": NOW - 900_000}, "late", "amber"),
    ],
)
def test_a_stream_is_in_one_state(given: Any, state: State, tone: str) -> None:
    found = judged(**given)
    assert (found.state, found.tone) == (state, tone)


def test_who_just_began_to_hold_does_not_hold_since_the_last_mark() -> None:
    def found(marked_ms: int, held_ms: int) -> JudgedState:
        return judged(marked_ms=marked_ms, explained={"held_ms": held_ms})

    assert found(NOW - 68_000, 12_000) == state_of("held", "amber", NOW - 12_000)
    assert found(NOW - 11_000, 12_000) == state_of("held", "amber", NOW - 11_000)
    assert found(NOW - 68_000, 2_000).state == "moving"


def test_trouble_comes_first_and_what_stands_longest() -> None:
    judgements = {
        "c": state_of("moving"),
        "b": state_of("held", since_ms=NOW - 20),
        "a": state_of("quiet", since_ms=NOW - 900),
        "d": state_of("held", "red", NOW - 99),
        "e": state_of("silent", since_ms=NOW - 9_000),
        "f": state_of("late"),
    }
    assert "".join(sorted(judgements, key=lambda name: judgements[name].rank)) == "dbfeca"


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
        ({"explained": {"reason": "sealed"}, "final": True}, "ended"),
        ({}, "moving"),
        ({"explained": {"reason": "min_writers"}, "marked_ms": NOW + 1}, "too few writers"),
    ],
)
def test_a_line_says_the_state_and_who_is_to_blame_and_for_how_long(
    given: Any, words: str
) -> None:
    assert describe_state(brief_of(**given), judged(**given), now_ms=NOW) == words
