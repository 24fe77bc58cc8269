"""Watermark strategies keep their promises, whatever is written and whenever they are asked."""

from collections.abc import Callable
from datetime import timedelta
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from writer_client._clocked import ClockedStrategy, RunningClock
from writer_client._hints import Hints
from writer_client._noter import Noter
from writer_client.strategies import (
    BoundedOutOfOrderness,
    LatenessQuantile,
    MonotonousTimestamps,
    ObservedEvent,
    Outstanding,
    PerPartition,
    Punctuated,
    Strategy,
    TimeLag,
    WithIdleness,
)

DELAY_MS = 10
SKEW_MS = 1_000
_DELAY = timedelta(milliseconds=DELAY_MS)


class Step(NamedTuple):
    """The wall clock moves, back too; an event of a source is written; perhaps the strategy is asked.

    Without a source no event is written.
    """

    passes_ms: int
    event_time: int | None
    source: int | None
    asks: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(-50, 200),
        st.none() | st.integers(0, 3_000),
        st.none() | st.integers(0, 2),
        st.booleans(),
    )
)


class Noted(NamedTuple):
    """A noted time, the wall clock then, and the newest event that was not too far in the future."""

    time: int
    wall_ms: int
    newest: int


# Each strategy, and the greatest time that it may note.
KINDS: dict[str, tuple[Callable[[], Strategy], Callable[[Noted], int]]] = {
    "bounded": (lambda: BoundedOutOfOrderness(_DELAY), lambda then: then.newest - DELAY_MS),
    "advancing": (
        lambda: BoundedOutOfOrderness(_DELAY, advance_on_idle=True),
        lambda then: max(then.newest, then.wall_ms) - DELAY_MS,
    ),
    "punctuated": (
        lambda: Punctuated(lambda event: event.event_time),
        lambda then: then.newest,
    ),
    "time lag": (lambda: TimeLag(_DELAY), lambda then: then.wall_ms - DELAY_MS),
    "quantile": (lambda: LatenessQuantile(0.9), lambda then: then.newest),
    "outstanding": (lambda: Outstanding(_DELAY), lambda then: then.wall_ms - DELAY_MS),
    "per partition": (
        lambda: PerPartition(
            lambda: WithIdleness(MonotonousTimestamps(), timedelta(milliseconds=100))
        ),
        lambda then: then.newest,
    ),
}


def _play(strategy: Strategy, steps: list[Step]) -> tuple[Noter, list[Noted]]:
    """Write, and note whatever the strategy says; tell what was noted."""
    wall_ms, running_ms, newest, noted = 0, 0, -1, list[Noted]()
    noting = ClockedStrategy(
        strategy,
        wall_ms=lambda: wall_ms,
        running=RunningClock(lambda: running_ms * 1_000_000),
    )
    noting.max_future_skew_ms = SKEW_MS
    noter = Noter("one", Hints("demo/rides"), noting)
    for step in steps:
        wall_ms += step.passes_ms
        running_ms += abs(step.passes_ms)
        is_due = False
        if step.source is not None:
            is_due = noter.observe(ObservedEvent(step.event_time, source=step.source))
            if step.event_time is not None and step.event_time <= wall_ms + SKEW_MS:
                newest = max(newest, step.event_time)
        if is_due or step.asks:
            told = noter.strategy_time()
            if told is not None:
                noter.notes.add(told)
                noted.append(Noted(told, wall_ms, newest))
    return noter, noted


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_noted_times_rise_and_are_not_above_what_the_clock_or_the_events_allow(
    kind: str, steps: list[Step]
) -> None:
    make, most = KINDS[kind]
    _, noted = _play(make(), steps)
    times = [then.time for then in noted]
    assert times == sorted(set(times))
    assert [then for then in noted if then.time > most(then)] == []


@given(
    st.lists(
        st.tuples(
            st.integers(0, 50), st.integers(0, DELAY_MS), st.integers(0, 2), st.booleans()
        )
    )
)
def test_a_bounded_strategy_makes_no_event_late_that_is_out_of_order_by_its_delay(
    events: list[tuple[int, int, int, bool]],
) -> None:
    newest, steps = 0, []
    for rises_ms, behind_ms, source, asks in events:
        newest += rises_ms
        steps.append(Step(rises_ms, newest - behind_ms, source, asks))
    noter, _ = _play(BoundedOutOfOrderness(_DELAY), steps)
    assert noter.late_events == 0
    by_partition, _ = _play(
        PerPartition(lambda: BoundedOutOfOrderness(_DELAY), range(3)), steps
    )
    assert by_partition.late_events == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 100), st.integers(0, 100), st.integers(0, 5)), max_size=50
    )
)
def test_nothing_that_is_outstanding_is_ever_late(steps: list[tuple[int, int, int]]) -> None:
    """An item begins with a time that is at most the lag old; its event is written when it is done."""
    wall_ms, begun = 1_000, dict[int, int]()
    outstanding = Outstanding(lag=timedelta(milliseconds=100))
    noting = ClockedStrategy(outstanding, wall_ms=lambda: wall_ms)
    noter = Noter("one", Hints("demo/rides"), noting)
    for passes_ms, age_ms, item in steps:
        wall_ms += passes_ms
        if item in begun:
            noter.observe(ObservedEvent(begun.pop(item)))
            outstanding.done(item)
        else:
            begun[item] = wall_ms - age_ms
            outstanding.begin(item, begun[item])
        told = noter.strategy_time()
        if told is not None:
            noter.notes.add(told)
    assert noter.late_events == 0
