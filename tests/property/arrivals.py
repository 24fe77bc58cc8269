"""Rows of event-time processing, and the ways in which they may arrive."""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

from hypothesis import strategies as st

from spark_source.processing import (
    ProcessOperator,
    ProcessStep,
    SessionWindows,
    SlidingWindows,
    WindowSettings,
)
from spark_source.processing.assigners import Assigner
from spark_source.processing.keys import Row, bucket_of
from spark_source.processing.windowed import Accumulation, Trigger
from tests.window_model import WindowModel, WindowStep
from tidegauge.event_time import END_OF_TIME

Operator: TypeAlias = ProcessOperator | WindowModel
Outputs: TypeAlias = dict[str, dict[object, list[Row]]]
"""Of each output the rows by key; those of a key in their order."""

_KEYS = st.sampled_from(["a", "b", None])
# Few, so that times, bounds, timers and the ends of windows often coincide.
_TIMES = st.integers(-6, 18)
_LEAST_BOUND = -8
_VALUES = st.integers(-9, 9)


@dataclass(frozen=True)
class Step:
    """A bound, and the rows that come with it."""

    bound: int | None
    rows: list[Row]


def rows_of(*, apart: bool = False) -> st.SearchStrategy[list[Row]]:
    """Draw rows; if they are apart, no two have the same time."""
    contents = st.lists(
        st.tuples(_KEYS, _TIMES, st.integers(0, 2), _VALUES),
        max_size=25,
        unique_by=(lambda content: content[1]) if apart else None,
    )
    return contents.map(
        lambda drawn: [
            (key, time, segment, offset, value)
            for offset, (key, time, segment, value) in enumerate(drawn)
        ]
    )


@st.composite
def steps_of(draw: st.DrawFn, rows: list[Row], *, broken_by: int = 0) -> list[Step]:
    """Divide rows into steps, then let time end.

    They come roughly in the order of time, a few a step. The bound stays or rises, often as far
    as it may: to the least time to come, or so much further as promises are broken by.
    """
    delays = draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    delayed = sorted(zip(rows, delays, strict=True), key=lambda pair: pair[0][1] + pair[1])
    coming = [row for row, _ in delayed]
    steps = []
    bound: int | None = None
    while coming:
        count = draw(st.integers(0, 4))
        least = _LEAST_BOUND if bound is None else bound
        most = min(row[1] for row in coming) + draw(st.integers(0, broken_by))
        if bound is not None or draw(st.booleans()):
            bound = draw(st.just(max(least, most)) | st.integers(least, max(least, most)))
        steps.append(Step(bound, coming[:count]))
        coming = coming[count:]
    return [*steps, Step(END_OF_TIME, [])]


@st.composite
def any_steps(draw: st.DrawFn) -> list[Step]:
    """Divide rows into steps, late ones as well; after the end of time more rows come."""
    steps: list[Step] = draw(steps_of(draw(rows_of()), broken_by=12))
    last = [(key, 50, 0, 100 + at, 1) for at, key in enumerate(draw(st.lists(_KEYS)))]
    return [*steps, Step(END_OF_TIME, last)]


SIZES = st.integers(1, 8)
apart: st.SearchStrategy[Assigner] = st.one_of(
    st.builds(SessionWindows, SIZES),
    st.builds(lambda size, offset: SlidingWindows(size, size, offset), SIZES, SIZES),
)
"""Assigners that put a row into one window."""
assigners: st.SearchStrategy[Assigner] = st.one_of(
    apart,
    st.tuples(SIZES, st.integers(0, 7), st.integers(-20, 20)).map(
        lambda drawn: SlidingWindows(drawn[0], 1 + drawn[1] % drawn[0], drawn[2])
    ),
)


def settings_of(
    aggregates: Mapping[str, Any],
    assigners: st.SearchStrategy[Assigner] = assigners,
    accumulations: tuple[Accumulation, ...] = get_args(Accumulation),
    triggers: tuple[Trigger, ...] = get_args(Trigger),
) -> st.SearchStrategy[WindowSettings]:
    """Draw how rows are put into windows, and what becomes of those."""
    return st.builds(
        WindowSettings,
        assigner=assigners,
        aggregates=st.just(aggregates),
        lateness_ms=st.integers(0, 15),
        accumulation=st.sampled_from(accumulations),
        trigger=st.sampled_from(triggers),
    )


def run(
    operator: Operator, steps: Iterable[Step], *, anew: bool = False
) -> list[ProcessStep | WindowStep]:
    """Run steps on one operator, or each on one that has run no other."""
    state: bytes | None = None
    done = list[ProcessStep | WindowStep]()
    for one in steps:
        running = deepcopy(operator) if anew else operator
        step = running.step(state, one.bound, one.rows)
        state = step.state
        done.append(step)
    return done


def run_in_buckets(
    operator: Operator, steps: Iterable[Step], buckets: int
) -> Iterator[list[ProcessStep | WindowStep]]:
    """Run steps on the buckets of the keys, each only when it has rows or is due.

    That is when Spark calls: for input, and when a timer has expired.
    """
    states: list[bytes | None] = [None] * buckets
    next_bounds: list[int | None] = [None] * buckets
    for one in steps:
        done = list[ProcessStep | WindowStep]()
        for bucket in range(buckets):
            rows = [row for row in one.rows if bucket_of(row[0], buckets) == bucket]
            due = next_bounds[bucket]
            if rows or (one.bound is not None and due is not None and due <= one.bound):
                step = operator.step(states[bucket], one.bound, rows)
                states[bucket], next_bounds[bucket] = step.state, step.next_bound
                done.append(step)
        yield done


def outputs_of(done: Iterable[ProcessStep | WindowStep]) -> Outputs:
    """Gather all that steps put out; the order of late rows means nothing."""
    gathered: Outputs = {"out": {}, "late": {}}
    for step in done:
        side = step.side if isinstance(step, ProcessStep) else {}
        for name, rows in {"out": step.out, "late": step.late, **side}.items():
            for row in rows:
                gathered.setdefault(name, {}).setdefault(row[0], []).append(tuple(row))
    for rows in gathered["late"].values():
        rows.sort()
    return gathered
