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
    """The wall clock moves, back too; perhaps an event is written; perhaps the strategy is asked."""

    passes_ms: int
    event_time: int | None
    source: int
    asks: bool


STEPS = st.lists(
    st.builds(
        Step,
        st.integers(-50, 200),
        st.none() | st.integers(0, 3_000),
        st.integers(0, 2),
        st.booleans(),
    )
)

KINDS: dict[str, Callable[[], Strategy]] = {
    "bounded": lambda: BoundedOutOfOrderness(_DELAY),
    "advancing": lambda: BoundedOutOfOrderness(_DELAY, advance_on_idle=True),
    "punctuated": lambda: Punctuated(lambda event: event.event_time),
    "time lag": lambda: TimeLag(_DELAY),
    "quantile": lambda: LatenessQuantile(0.9),
    "outstanding": Outstanding,
    "per partition": lambda: PerPartition(
        lambda: WithIdleness(MonotonousTimestamps(), timedelta(milliseconds=100))
    ),
}


def _play(strategy: Strategy, steps: list[Step]) -> tuple[Noter, list[int]]:
    """Write, and note whatever the strategy says; tell what was noted."""
    wall_ms, running_ms, noted = 0, 0, list[int]()
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
        event = ObservedEvent(step.event_time, source=step.source)
        if noter.observe(event) or step.asks:
            told = noter.strategy_time()
            if told is not None:
                noter.notes.add(told)
                noted.append(told)
    return noter, noted


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_what_is_noted_always_rises(kind: str, steps: list[Step]) -> None:
    _, noted = _play(KINDS[kind](), steps)
    assert noted == sorted(set(noted))


@pytest.mark.parametrize("kind", KINDS)
@given(steps=STEPS)
def test_no_time_is_beyond_what_the_clock_and_the_skew_allow(
    kind: str, steps: list[Step]
) -> None:
    _, noted = _play(KINDS[kind](), steps)
    assert max(noted, default=0) <= sum(max(0, step.passes_ms) for step in steps) + SKEW_MS


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
