"""Runs one case of event-time processing against the operators that run on Spark.

Operators hold nothing between steps, so state is saved and restored in every run.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from spark_source.processing import (
    MissingEventTimeError,
    ProcessOperator,
    ProcessStep,
    SessionWindows,
    SlidingWindows,
    TimerLoopError,
    WindowSettings,
)
from spark_source.processing.aggregates import count, max, mean, min, sum  # noqa: A004
from spark_source.processing.assigners import Assigner
from spark_source.processing.keys import Row
from tests.conformance.arrow_windows import ArrowOperator
from tests.conformance.processors import build_processor
from tests.window_model import WindowStep
from tidegauge.event_time import END_OF_TIME

Case: TypeAlias = dict[str, Any]
Operator: TypeAlias = ProcessOperator | ArrowOperator

AGGREGATES = {
    "count": count(),
    "sum": sum("value"),
    "min": min("value"),
    "max": max("value"),
    "mean": mean("value"),
}


def run_event_time_case(case: Case) -> None:
    operator = build_operator(case)
    state: bytes | None = None
    for number, (given, expected) in enumerate(zip(case["steps"], case["expect"], strict=True)):
        rows = [tuple(row) for row in given["rows"]]
        bound = END_OF_TIME if given["bound"] == "end" else given["bound"]
        shown, state = _step(operator, state, bound, rows)
        assert shown == expected, f"step {number} of {case['name']}"


class ProcessInMs(ProcessOperator):
    """Takes and returns rows with event time in ms."""

    def step(self, state: bytes | None, bound: int | None, rows: Iterable[Row]) -> ProcessStep:
        in_us = ((row[0], self.microseconds(row), *row[2:]) for row in rows)
        step = super().step(state, bound, in_us)
        step.late = [(key, time_us // 1_000, *rest) for key, time_us, *rest in step.late]
        return step

    def microseconds(self, row: Row) -> int | None:
        return None if row[1] is None else row[1] * 1_000


def build_operator(case: Case) -> Operator:
    """Make the operator that a case is about."""
    if case["operator"] == "process":
        at_end = case.get("at_end", "drain")
        return ProcessInMs(build_processor(case), at_end=at_end)
    settings = WindowSettings(
        assigner=_ASSIGNERS[case["assigner"]["type"]](case["assigner"]),
        aggregates=AGGREGATES,
        lateness_ms=case["lateness"],
        accumulation=case["accumulation"],
        trigger=case["trigger"],
    )
    return ArrowOperator(settings)


_ASSIGNERS: dict[str, Callable[[Case], Assigner]] = {
    "tumbling": lambda given: SlidingWindows(given["size"], given["size"], given["offset"]),
    "sliding": lambda given: SlidingWindows(given["size"], given["slide"], given["offset"]),
    "session": lambda given: SessionWindows(given["gap"]),
}


def _step(
    operator: Operator, state: bytes | None, bound: int | None, rows: list[Row]
) -> tuple[Case, bytes | None]:
    try:
        step = operator.step(state, bound, rows)
    except TimerLoopError as error:
        told = {"key": error.key, "name": error.name, "time": error.time}
        return {"error": {"type": "TimerLoopError", **told}}, state
    except MissingEventTimeError as error:
        place = {"segment": error.segment, "offset": error.offset}
        return {"error": {"type": "MissingEventTimeError", **place}}, state
    late = [_late(row, at_the_end=bound == END_OF_TIME) for row in step.late]
    shown = _shown(step) | {"late": sorted(late, key=lambda row: row[:4])}
    return {name: value for name, value in shown.items() if value}, step.state


def _late(row: Row, *, at_the_end: bool) -> list[Any]:
    assert not at_the_end or row[-1] == END_OF_TIME
    return [*row[:-1], "end" if at_the_end else row[-1]]


def _shown(step: ProcessStep | WindowStep) -> Case:
    if isinstance(step, WindowStep):
        return {
            "out": [
                [
                    *(one.key, one.start_ms, one.end_ms, one.kind, one.pane, one.pane_index),
                    *one.values,
                ]
                for one in step.out
            ],
            "partially_late": step.partially_late,
            "windows": step.windows,
        }
    side = {name: [list(row) for row in rows] for name, rows in step.side.items() if rows}
    counts = {"keys": step.keys, "buffered": step.buffered, "timers": step.timers}
    return {"out": [list(row) for row in step.out], "side": side} | counts
