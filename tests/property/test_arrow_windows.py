"""Windows as Spark runs them do what the operator without Spark does."""

from dataclasses import replace

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_source.processing import LocalDayWindows, WindowSettings
from tests.conformance.arrow_windows import ArrowOperator, schemas_of
from tests.conformance.event_time import AGGREGATES
from tests.property.arrivals import Step, any_steps, assigners, settings_of
from tests.window_model import WindowModel, WindowStep
from tidegauge.event_time import END_OF_TIME


class _Distinct:
    """An aggregate as users write them."""

    column = "value"

    def zero(self) -> set[int]:
        return set()

    def add(self, accumulator: set[int], value: int) -> set[int]:
        accumulator.add(value)
        return accumulator

    def merge(self, left: set[int], right: set[int]) -> set[int]:
        return left | right

    def result(self, accumulator: set[int]) -> int:
        return len(accumulator)


_ALL_AGGREGATES = {**AGGREGATES, "distinct": _Distinct()}
_RESULTS = {name: pa.float64() if name == "mean" else pa.int64() for name in _ALL_AGGREGATES}
_SETTINGS = settings_of(
    _ALL_AGGREGATES,
    assigners
    | st.builds(
        LocalDayWindows, st.integers(1, 3), st.just("Europe/Paris"), st.integers(-2, 2)
    ),
)


@given(_SETTINGS, any_steps(), st.booleans())
def test_windows_on_spark_say_what_those_of_the_operator_say(
    settings: WindowSettings,
    steps: list[Step],
    promised: bool,  # noqa: FBT001 (drawn)
) -> None:
    if isinstance(settings.assigner, LocalDayWindows):
        settings, steps = _in_days(settings, steps)
    schemas = schemas_of(pa.int64(), _RESULTS)
    on_spark = ArrowOperator(settings, promised=promised, schemas=schemas)
    operator = WindowModel(settings)
    state = state_on_spark = None
    for one in steps:
        expected = operator.step(state, one.bound, one.rows)
        found = on_spark.step(state_on_spark, one.bound, one.rows)
        assert _without_state(found) == _without_state(expected)
        state, state_on_spark = expected.state, found.state


_HOURS_MS = 5 * 3_600_000
_SWITCH_MS = 1_711_846_800_000
"""When the clocks of Paris skipped an hour on 2024-03-31."""


def _in_days(settings: WindowSettings, steps: list[Step]) -> tuple[WindowSettings, list[Step]]:
    """Move what was drawn to the days around a switch of clocks."""
    return replace(settings, lateness_ms=settings.lateness_ms * _HOURS_MS), [
        Step(
            one.bound if one.bound in (None, END_OF_TIME) else _around_switch(one.bound),
            [(key, _around_switch(time), *rest) for key, time, *rest in one.rows],
        )
        for one in steps
    ]


def _around_switch(time: int) -> int:
    return _SWITCH_MS + time * _HOURS_MS


def _without_state(step: WindowStep) -> WindowStep:
    return replace(step, state=None, late=sorted(step.late, key=str))
