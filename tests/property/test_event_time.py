"""What holds of event-time processing whatever the rows, and however they arrive."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from spark_source.processing import EventTimeProcessor, ProcessStep
from spark_source.processing.keys import Row
from tests.conformance import processors
from tests.conformance.event_time import AGGREGATES, ProcessInMs
from tests.property.arrivals import (
    Operator,
    Step,
    any_steps,
    apart,
    outputs_of,
    rows_of,
    run,
    run_in_buckets,
    settings_of,
    steps_of,
)
from tests.window_model import Firing, WindowModel, WindowStep
from tidegauge.event_time import END_OF_TIME


class Everything(processors.Counter):
    """Counts, emits to two outputs, and sets timers that set each other."""

    side_outputs = {"timers": "key string, at bigint, name string"}  # noqa: RUF012

    def on_event(self, key: Any, event: Any, ctx: Any) -> None:
        super().on_event(key, event, ctx)
        ctx.set_timer(f"of {event.value % 2}", ctx.time_ms + event.value)
        if event.value < -5:
            ctx.delete_timer("of 1")

    def on_timer(self, key: Any, name: str, ctx: Any) -> None:
        ctx.emit_to("timers", key, ctx.time_ms, name)
        self.remainders[7] = self.remainders.get(7, 0) + 1
        if self.remainders[7] % 3:
            ctx.set_timer("again", ctx.time_ms + self.remainders[7] % 4)
        if self.remainders[7] > 5:
            self.values.clear()
            self.remainders.clear()
            self.count.clear()


_FORGETFUL: st.SearchStrategy[EventTimeProcessor] = st.one_of(
    st.builds(processors.Timeout, st.integers(-1, 8)),
    st.builds(processors.PastTimer),
    st.builds(processors.Delete),
    st.builds(processors.Rearm, st.integers(0, 9), st.integers(0, 4)),
)
"""Those that keep nothing of a key for ever."""

_PROCESSORS = st.builds(Everything) | _FORGETFUL


class Process(ProcessInMs):
    """Orders the events of a millisecond by microseconds that their values are."""

    def microseconds(self, row: Row) -> int:
        return int(row[1]) * 1_000 + 500 - int(row[4]) * 50


def _windowed(**how: Any) -> st.SearchStrategy[WindowModel]:
    return st.builds(WindowModel, settings_of(AGGREGATES, **how))


_OPERATORS: st.SearchStrategy[Operator] = st.one_of(
    st.builds(Process, _PROCESSORS), _windowed()
)
_WITHOUT_EARLY: st.SearchStrategy[Operator] = st.one_of(
    st.builds(Process, _PROCESSORS), _windowed(triggers=("on_time",))
)


@given(_WITHOUT_EARLY, rows_of(), st.data())
def test_outputs_do_not_depend_on_where_steps_end_if_no_row_is_late(
    operator: Operator, rows: list[Row], data: st.DataObject
) -> None:
    at_once = outputs_of(run(operator, [Step(None, rows), Step(END_OF_TIME, [])]))
    assert outputs_of(run(operator, data.draw(steps_of(rows)))) == at_once
    assert at_once["late"] == {}


@given(_WITHOUT_EARLY, rows_of(apart=True), st.data())
def test_outputs_do_not_depend_on_segments_if_no_row_is_late(
    operator: Operator, rows: list[Row], data: st.DataObject
) -> None:
    moved = [(key, time, at % 3, at, value) for at, (key, time, _, _, value) in enumerate(rows)]
    expected = outputs_of(run(operator, data.draw(steps_of(rows))))
    assert outputs_of(run(operator, data.draw(steps_of(moved)))) == expected


@given(_OPERATORS, any_steps(), st.randoms(use_true_random=False))
def test_outputs_do_not_depend_on_the_order_of_rows_within_a_step(
    operator: Operator, steps: list[Step], chance: Any
) -> None:
    shuffled = [Step(one.bound, chance.sample(one.rows, len(one.rows))) for one in steps]
    assert outputs_of(run(operator, shuffled)) == outputs_of(run(operator, steps))


@given(_OPERATORS, any_steps(), st.integers(1, 5))
def test_outputs_do_not_depend_on_buckets_nor_on_steps_in_which_nothing_is_due(
    operator: Operator, steps: list[Step], buckets: int
) -> None:
    in_one = [outputs_of([step]) for step in run(operator, steps)]
    divided = [outputs_of(done) for done in run_in_buckets(operator, steps, buckets)]
    assert divided == in_one


@given(_OPERATORS, any_steps())
def test_an_operator_made_anew_goes_on_from_the_state_of_another(
    operator: Operator, steps: list[Step]
) -> None:
    assert outputs_of(run(operator, steps, anew=True)) == outputs_of(run(operator, steps))


@given(st.builds(Process, _PROCESSORS), any_steps())
def test_every_row_is_late_or_waits_or_has_reached_the_processor(
    operator: Process, steps: list[Step]
) -> None:
    joined = handled = 0
    for arrived, step in zip(steps, run(operator, steps), strict=True):
        assert isinstance(step, ProcessStep)
        assert step.joined + len(step.late) == len(arrived.rows)
        joined += step.joined
        handled += step.handled
        assert handled + step.buffered == joined


@given(_windowed(), any_steps())
def test_every_row_is_late_or_in_a_window(operator: WindowModel, steps: list[Step]) -> None:
    for arrived, step in zip(steps, run(operator, steps), strict=True):
        assert isinstance(step, WindowStep)
        assert step.added + len(step.late) == len(arrived.rows)
        assert 0 <= step.partially_late <= step.added


@given(st.builds(Process, _FORGETFUL) | _windowed(), any_steps())
def test_no_state_is_left_at_the_end_of_time(operator: Operator, steps: list[Step]) -> None:
    *_, last = run(operator, steps)
    assert (last.state, last.next_bound) == (None, None)


@given(_windowed(assigners=apart, accumulations=("discarding",)), any_steps())
def test_discarding_firings_say_every_row_once(
    operator: WindowModel, steps: list[Step]
) -> None:
    done = [step for step in run(operator, steps) if isinstance(step, WindowStep)]
    counts = [firing.values[0] for step in done for firing in step.out]
    assert sum(counts) == sum(step.added for step in done)
    assert 0 not in counts


@given(_windowed(assigners=apart, accumulations=("accumulating_and_retracting",)), any_steps())
def test_results_that_still_stand_say_every_row_once(
    operator: WindowModel, steps: list[Step]
) -> None:
    done = [step for step in run(operator, steps) if isinstance(step, WindowStep)]
    standing = list[Firing]()
    for firing in (firing for step in done for firing in step.out):
        if firing.kind == "retraction":
            standing.remove(firing._replace(kind="result"))
        else:
            standing.append(firing)
    assert sum(firing.values[0] for firing in standing) == sum(step.added for step in done)
    windows = {(firing.key, firing.start_ms) for firing in standing}
    assert len(windows) == len(standing)
