"""Processors, as users write them and test them in memory."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from pyspark.sql import Row as SparkRow
from pyspark.sql.streaming.tws_tester import TwsTester
from pyspark.sql.types import StructType

from spark_source.errors import OutputError
from spark_source.operators.bucket import BucketHost, HostedOperator
from spark_source.processing import (
    CallbackError,
    Context,
    EventTimeProcessor,
    OpenContext,
    ProcessOperator,
    ProcessStep,
    StateMismatchError,
)
from spark_source.testing import ProcessorHarness
from tests.conformance.processors import Echo, Timeout
from tidegauge.event_time import END_OF_TIME


def at(hour: int, minute: int, second: int = 0) -> datetime:
    return datetime(2024, 1, 1, hour, minute, second, tzinfo=UTC)


class Calls(EventTimeProcessor):
    """Hands events, and timers, to functions."""

    side_outputs: ClassVar = {"side": "value string"}

    def __init__(
        self,
        on_event: Callable[[Any, Any, Context], object],
        on_timer: Callable[[Any, Any, Context], object] | None = None,
        *,
        output: str = "value string",
    ) -> None:
        self.output = output  # type: ignore[misc]  # one class for many processors
        self.handle = on_event
        self.fire = on_timer

    def open(self, ctx: OpenContext) -> None:
        self.value = ctx.value("value")
        self.items = ctx.list("items")
        self.fields = ctx.map("fields")

    def on_event(self, key: Any, event: Any, ctx: Context) -> None:
        self.handle(self, event, ctx)

    def on_timer(self, key: Any, name: str, ctx: Context) -> None:
        if self.fire is None:
            super().on_timer(key, name, ctx)
        else:
            self.fire(self, name, ctx)


def ended(processor: EventTimeProcessor, *values: object, **how: Any) -> ProcessStep:
    """Send an event of each value, and run the step at the end of time."""
    harness = ProcessorHarness(processor, **how)
    for value in values:
        harness.send("a", 10, value)
    harness.advance()
    return harness.end()


def refused(processor: EventTimeProcessor, value: object = None) -> CallbackError:
    """Send an event, and return the error of the step at the end of time."""
    with pytest.raises(CallbackError) as raised:
        ended(processor, value)
    return raised.value


class Forgetful(EventTimeProcessor):
    output = "n int"
    count = 0

    def open(self, ctx: OpenContext) -> None:
        self.unit = 1

    def on_event(self, key: Any, event: Any, ctx: Context) -> None:
        if event.value == "timer":
            ctx.set_timer("t", ctx.time_ms)
        else:
            self.count += self.unit

    def on_timer(self, key: Any, name: str, ctx: Context) -> None:
        self.count = 0


@pytest.mark.parametrize("callback", ["event", "timer"])
def test_an_attribute_that_a_callback_assigns_is_refused_since_all_keys_share_it(
    callback: str,
) -> None:
    error = refused(Forgetful(), callback)
    assert f"on_{callback} failed" in str(error)
    assert str(error.__cause__) == (
        "Forgetful assigns self.count in a callback; all keys share it, and it is lost between "
        "batches. Keep what belongs to a key in ctx.value('count') of open(), and assign there what "
        "does not change"
    )


def test_a_processor_may_be_opened_again() -> None:
    processor = Forgetful()
    for _ in range(2):
        ProcessOperator(processor)


def _emits(*row: object, output: str, to: str | None = None) -> ProcessStep:
    """Run a processor that emits one row, to the main output or to the side."""
    processor = Calls(
        lambda _, __, ctx: ctx.emit(*row) if to is None else ctx.emit_to(to, *row),
        output=output,
    )
    return ended(processor, None)


@pytest.mark.parametrize(
    "columns",
    [
        "a map<string, array<int>>, b struct<x: decimal(10, 2), y: int>",
        "a decimal(10, 2), `b, c` int COMMENT 'less than <, or more'",
        'a: int, b: string COMMENT "\'"',
    ],
)
def test_the_harness_refuses_a_row_that_has_not_a_value_for_each_column(columns: str) -> None:
    assert _emits(1, 2, output=columns).out == [(1, 2)]
    for row in ((1,), (1, 2, 3)):
        with pytest.raises(OutputError) as raised:
            _emits(*row, output=columns)
        assert str(raised.value) == (
            f"output 'main': {row} was emitted, and its columns are {columns}"
        )


def test_the_harness_refuses_a_row_of_an_output_without_columns_and_one_too_long_for_a_side() -> (
    None
):
    with pytest.raises(OutputError, match="'main': the processor emits to it and declares no"):
        _emits(1, output="")
    with pytest.raises(OutputError, match=r"'side': .*, and its columns are value string"):
        _emits(1, 2, output="", to="side")


def test_an_event_has_the_columns_that_were_asked_for() -> None:
    def show(_: Any, event: Any, ctx: Context) -> None:
        ctx.emit(event.speed, event.place, event.time, event.segment, event.offset)

    shown = "speed double, place string, at timestamp, segment int, offset int"
    harness = ProcessorHarness(Calls(show, output=shown), columns=["speed", "place"])
    harness.send("a", at(12, 0), 30.5, "x", segment=2)
    harness.advance()
    assert harness.end().out == [(30.5, "x", at(12, 0), 2, 0)]


def test_a_column_that_was_not_asked_for_is_named() -> None:
    error = refused(Calls(lambda _, event, __: event.speed), 1)
    assert str(error.__cause__) == "the event has no column 'speed'; ask for it in columns=[…]"


def test_state_keeps_python_values_as_they_are() -> None:
    def remember(self: Any, event: Any, ctx: Context) -> None:
        ctx.emit(self.value.get("none"), list(self.items), dict(self.fields))
        self.value.set((1, {2}))
        self.items.append(event)
        self.fields[at(12, 0)] = None

    shown = "value string, items array<string>, fields map<timestamp, string>"
    harness = ProcessorHarness(Calls(remember, output=shown))
    harness.send("a", 10, b"x")
    harness.send("a", 20, b"y")
    harness.advance()
    assert harness.advance(15).out == [("none", [], {})]
    [(value, [event], fields)] = harness.advance(25).out
    assert (value, fields) == ((1, {2}), {at(12, 0): None})
    assert (event.time_ms, event.value) == (10, b"x")


def test_empty_state_takes_no_room() -> None:
    def empty(self: Any, event: Any, ctx: Context) -> None:
        self.value.set(1)
        self.value.set(None)
        self.items.append(1)
        del self.items[0]
        self.fields[1] = 2
        self.fields.clear()
        ctx.set_timer("t", 99)
        ctx.delete_timer("t")

    step = ended(Calls(empty), None)
    assert (step.handled, step.keys, step.state) == (1, 0, None)


def test_a_name_of_state_is_used_once() -> None:
    class Twice(Echo):
        def open(self, ctx: OpenContext) -> None:
            ctx.value("seen")
            ctx.list("seen")

    with pytest.raises(ValueError, match="has a state 'seen' already"):
        ProcessOperator(Twice())


def test_an_event_callback_that_raises_fails_the_step_and_is_named() -> None:
    broken = Calls(lambda _, event, ctx: ctx.emit(1 / event.value))
    operator = ProcessOperator(broken)
    before = operator.step(None, None, [("a", 10_000, 3, 7, 0), ("b", 20_000, 3, 8, 1)])
    with pytest.raises(CallbackError) as raised:
        operator.step(before.state, 15, [])
    error = raised.value
    assert (error.key, error.time, error.place, error.timer) == ("a", 10, (3, 7), None)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert "on_event failed for the event at offset 7 of segment 3, key 'a', at 10" in str(
        error
    )
    again = operator.step(before.state, 10, [])
    assert (again.buffered, again.out) == (2, [])


def test_a_timer_callback_that_raises_fails_the_step_and_is_named() -> None:
    error = refused(Calls(lambda _, __, ctx: ctx.set_timer("t", 25)))
    assert (error.key, error.time, error.place, error.timer) == ("a", 25, None, "t")
    assert str(error.__cause__) == "Calls sets timer 't' for 'a' and has no on_timer"


def test_a_side_output_has_to_be_declared() -> None:
    to_side = Calls(lambda _, event, ctx: ctx.emit_to(event.value, 1))
    assert ended(to_side, "side").side == {"side": [(1,)]}
    assert "'other' is not a side output" in str(refused(to_side, "other").__cause__)


@pytest.mark.parametrize(
    ("bound", "next_bound"), [(None, 11), (10, 11), (11, 26), (25, 26), (26, None)]
)
def test_the_next_bound_is_the_least_that_releases_an_event_or_fires_a_timer(
    bound: int | None, next_bound: int | None
) -> None:
    operator = ProcessOperator(Timeout(15))
    before = operator.step(None, None, [("a", 10_000, 0, 0, None)])
    assert operator.step(before.state, bound, []).next_bound == next_bound


def test_state_of_another_number_of_buckets_is_refused() -> None:
    state = ProcessOperator(Echo(), buckets=16).step(None, None, [("a", 1, 0, 0, 1)]).state
    with pytest.raises(StateMismatchError) as raised:
        ProcessOperator(Echo(), buckets=32).step(state, None, [])
    assert str(raised.value) == (
        "the state was saved with buckets = 16, and the query has buckets = 32; give the former "
        "again, or start with a new checkpoint"
    )


@pytest.mark.parametrize("number", [2, 7])
def test_state_of_another_format_is_refused(number: int) -> None:
    state = ProcessOperator(Echo()).step(None, None, [("a", 1, 0, 0, 1)]).state
    assert state is not None
    with pytest.raises(StateMismatchError) as raised:
        ProcessOperator(Echo()).step(number.to_bytes(2) + state[2:], None, [])
    assert str(raised.value) == (
        f"the state was saved in format {number}, and this version keeps keys and buckets in format "
        "3; start with a new checkpoint, or finish the query with the version that began it"
    )


@pytest.mark.parametrize("values", ["yz", "zy"])
def test_events_of_one_place_come_by_what_they_show_wherever_steps_end(values: str) -> None:
    operator = ProcessOperator(Echo(), columns=["value"])
    state = None
    for value in values:
        state = operator.step(state, 0, [("k", 5_000, 0, 0, value)]).state
    assert operator.step(state, 6, []).out == [("k", 5, "y"), ("k", 5, "z")]


def micros(time_ms: int, microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
        milliseconds=time_ms, microseconds=microseconds
    )


@pytest.mark.parametrize("first", [-1_000, 0, 471])
def test_events_of_a_millisecond_come_by_their_microseconds_and_before_its_timers(
    first: int,
) -> None:
    def handle(_: Any, event: Any, ctx: Context) -> None:
        ctx.emit(event.value, event.time, event.time_ms, ctx.time)
        ctx.set_timer("now", event.time)

    processor = Calls(
        handle,
        lambda _, name, ctx: ctx.emit(name, ctx.time, ctx.time_ms, ctx.time),
        output="value string, at timestamp, ms long, time timestamp",
    )
    harness = ProcessorHarness(processor)
    for step in ((9, 5), (1,)):
        for microseconds in step:
            harness.send("a", micros(first, microseconds), microseconds)
        harness.advance()
    whole = micros(first, 0)
    assert harness.advance(whole).out == []
    assert harness.advance(first + 1).out == [
        *((us, micros(first, us), first, whole) for us in (1, 5, 9)),
        ("now", whole, first, whole),
    ]


def test_a_late_event_with_microseconds_is_late_by_whole_milliseconds() -> None:
    harness = ProcessorHarness(Echo())
    harness.send("a", micros(19, 999), "late")
    harness.send("a", micros(20, 1), "in time")
    step = harness.advance(20)
    assert (step.late, step.buffered) == ([("a", 19, 0, 0, "late", 1)], 1)


class Keeps(EventTimeProcessor):
    """Keeps the event before."""

    def open(self, ctx: OpenContext) -> None:
        self.before = ctx.value("before")

    def on_event(self, key: Any, event: Any, ctx: Context) -> None:
        before = self.before.get()
        ctx.emit(event.value, event.time_ms, before and (before.value, before.time_ms))
        self.before.set(event)


def test_an_event_may_be_kept_in_state() -> None:
    rows = [("a", 5_000, 0, 0, "kept"), ("a", 10_001, 0, 1, "new")]
    step = ProcessOperator(Keeps()).step(None, None, rows)
    step = ProcessOperator(Keeps()).step(step.state, 6, [])
    step = ProcessOperator(Keeps()).step(step.state, 11, [])
    assert step.out == [("new", 10, ("kept", 5))]


def test_a_bucket_is_asked_for_the_format_of_its_state_even_if_it_has_no_rows() -> None:
    """Else another bucket would take rows of a key whose state is here, in batches that count."""
    operator = HostedOperator(name="echo", open=Echo, columns=[], output=StructType())  # type: ignore[arg-type]
    tester = TwsTester(
        BucketHost(operator, buckets=2, ahead=0),
        timeMode="EventTime",
        eventTimeExtractor=lambda _: END_OF_TIME,
    )
    tester.updateValueState("bucket", 0, (b"\x00\x02former", None, 2))
    with pytest.raises(StateMismatchError, match="saved in format 2"):
        tester.test(0, [SparkRow(rows=None)])


def test_lists_and_maps_are_used_as_those_of_python() -> None:
    def use(self: Any, event: Any, ctx: Context) -> None:
        self.items += [3, 1, 2]
        self.items.insert(0, 9)
        self.items[1] = 4
        del self.items[-1]
        self.fields.update(x=1, y=2)
        ctx.emit(self.items[:2], len(self.items), self.fields.pop("x"), "x" in self.fields)

    shown = "items array<int>, count int, x int, has_x boolean"
    assert ended(Calls(use, output=shown), None).out == [([9, 4], 3, 1, False)]
