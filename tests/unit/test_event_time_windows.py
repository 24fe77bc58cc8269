"""What may be a window and an aggregate, and what is kept of them."""

from datetime import timedelta
from decimal import Decimal
from itertools import permutations
from math import isnan, nan
from typing import Any

import pytest

from spark_source.errors import InvalidOptionError
from spark_source.processing import (
    SessionWindows,
    SlidingWindows,
    StateMismatchError,
    WindowSettings,
    count,
    max,  # noqa: A004
    mean,
    min,  # noqa: A004
    session,
    sliding,
    sum,  # noqa: A004
    tumbling,
)
from spark_source.processing.keys import Row
from tests.window_model import Firing, WindowModel
from tidegauge.event_time import END_OF_TIME


def row(key: str | None, time: int, value: Any = None, offset: int = 0) -> Row:
    return key, time, 0, offset, value


def settings(**changes: Any) -> WindowSettings:
    given: dict[str, Any] = {"assigner": SlidingWindows(10, 10), "aggregates": {"n": count()}}
    return WindowSettings(**(given | changes))


def result_of(aggregate: Any, values: list[Any]) -> Any:
    """Aggregate values, of which the last comes in a step of its own."""
    operator = WindowModel(settings(aggregates={"it": aggregate}))
    rows = [row("a", 1, value) for value in values]
    state = operator.step(None, None, rows[:-1]).state
    state = operator.step(state, None, rows[-1:]).state
    [firing] = operator.step(state, 10, []).out
    return firing.values[0]


def test_durations_are_written_as_for_spark_or_as_timedeltas() -> None:
    assert tumbling("1 hour") == SlidingWindows(3_600_000, 3_600_000)
    assert tumbling("1 hour", timedelta(minutes=-5)).offset_ms == -300_000
    assert sliding(timedelta(minutes=1), "10 s", "0 s") == SlidingWindows(60_000, 10_000)
    assert session("30 minutes") == SessionWindows(1_800_000)


@pytest.mark.parametrize("duration", ["soon", "-1 hour", timedelta(microseconds=1), 10])
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"option 'size': .* is no"):
        tumbling(duration)


@pytest.mark.parametrize(("size", "slide"), [(10, 0), (10, 11), (0, 0), (10, -5), (-10, -10)])
def test_rows_may_not_fall_between_windows(size: int, slide: int) -> None:
    with pytest.raises(InvalidOptionError, match="'slide'"):
        SlidingWindows(size, slide)


def test_a_session_needs_a_gap() -> None:
    with pytest.raises(InvalidOptionError, match="'gap'"):
        SessionWindows(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lateness_ms": -1}, "-1 ms is below 0"),
        ({"accumulation": "some"}, "'some' is none of accumulating, discarding,"),
        ({"trigger": "never"}, "'never' is none of on_time, early"),
        ({"aggregates": {"x": mean("y")}}, "'x' is of column 'y'; there are: value"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        settings(**changes)


def test_an_aggregate_of_the_users_is_merged_as_sessions_are() -> None:
    class Distinct:
        column = "value"

        def zero(self) -> set[str]:
            return set()

        def add(self, accumulator: set[str], value: str) -> set[str]:
            accumulator.add(value)
            return accumulator

        def merge(self, left: set[str], right: set[str]) -> set[str]:
            return left | right

        def result(self, accumulator: set[str]) -> int:
            return len(accumulator)

    operator = WindowModel(
        settings(assigner=SessionWindows(10), aggregates={"distinct": Distinct()})
    )
    rows = [row("a", 0, "x"), row("a", 3, "y"), row("a", 20, "x"), row("a", 22, "z")]
    state = operator.step(None, None, rows).state
    state = operator.step(state, None, [row("a", 12, "y")]).state
    assert operator.step(state, END_OF_TIME, []).out == [
        Firing("a", 0, 32, "result", "on_time", 0, (3,))
    ]


def test_nan_is_the_greatest_number_in_whichever_order_it_comes() -> None:
    for values in permutations([2.0, nan, -1.0, None]):
        assert result_of(min("value"), list(values)) == -1.0
        assert isnan(result_of(max("value"), list(values)))


def test_aggregates_take_whatever_can_be_added_and_compared() -> None:
    values = [Decimal("0.1"), None, Decimal("0.2")]
    assert result_of(sum("value"), values) == Decimal("0.3")
    assert result_of(mean("value"), values) == Decimal("0.15")
    assert result_of(max("value"), ["b", "c", "a"]) == "c"


def test_a_sum_is_exact_beyond_what_a_float_can_hold() -> None:
    assert result_of(sum("value"), [2**62, 1, -(2**62)]) == 1


@pytest.mark.parametrize(
    ("changes", "bound", "next_bound"),
    [
        ({}, None, 10),
        ({}, 10, None),
        ({"lateness_ms": 5}, 9, 10),
        ({"lateness_ms": 5}, 10, 15),
        ({"lateness_ms": 5}, 15, None),
        ({"lateness_ms": END_OF_TIME}, 10, END_OF_TIME),
        ({"assigner": SessionWindows(10)}, 10, 12),
        ({"assigner": SessionWindows(10), "lateness_ms": 5}, 12, 17),
    ],
)
def test_the_next_bound_is_the_least_that_closes_or_frees_a_window(
    changes: Any, bound: int | None, next_bound: int | None
) -> None:
    operator = WindowModel(settings(**changes))
    before = operator.step(None, None, [row("a", 1)])
    assert operator.step(before.state, bound, []).next_bound == next_bound


def test_the_rows_without_a_key_are_those_of_one() -> None:
    operator = WindowModel(settings())
    state = operator.step(None, None, [row("a", 1), row(None, 2), row(None, 3)]).state
    assert [(one.key, one.values) for one in operator.step(state, 10, []).out] == [
        (None, (2,)),
        ("a", (1,)),
    ]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"assigner": SessionWindows(10)}, "assigner"),
        ({"aggregates": {"n": count(), "sum": sum("value")}}, "aggregates"),
        ({"accumulation": "discarding"}, "accumulation"),
        ({"buckets": 2}, "buckets"),
    ],
)
def test_state_of_other_windows_is_refused(changes: Any, setting: str) -> None:
    state = WindowModel(settings()).step(None, None, [row("a", 1)]).state
    with pytest.raises(StateMismatchError) as raised:
        WindowModel(settings(**changes)).step(state, None, [])
    assert raised.value.setting == setting


def test_lateness_and_trigger_may_change_at_a_restart() -> None:
    state = WindowModel(settings()).step(None, None, [row("a", 1)]).state
    changed = WindowModel(settings(lateness_ms=5, trigger="early"))
    step = changed.step(state, 10, [row("a", 2), row("a", 12)])
    assert [(one.pane, one.values) for one in step.out] == [
        ("on_time", (1,)),
        ("late", (2,)),
        ("early", (1,)),
    ]
