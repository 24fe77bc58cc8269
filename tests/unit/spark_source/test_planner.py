"""Planning of Spark batches: a function of offsets, marks, topology, tail and limits alone."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.source.planner import (
    Limits,
    Offset,
    Origin,
    View,
    begin,
    divided,
    plan,
    rows_between,
    time_to_reach,
)
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import covers, down_set
from tidegauge.marks import Mark
from tidegauge.topology import Topology

FLAT = Topology.of_equal_ranges(2)
START = Offset("id", {0: 0, 1: 0}, None, 0, 1)
MARKS = [Mark(1, 1_000, 1_000, {0: 5, 1: 3}), Mark(2, 2_000, 2_000, {0: 9, 1: 9})]
VIEW = View(FLAT, MARKS, is_newest=True, tail={0: 20, 1: 9})


def _plan(start: Offset, view: View = VIEW, run: int = 1, **limits: object) -> Offset:
    wanted = Limits(**limits)  # type: ignore[arg-type]
    return plan(start, view, wanted, run=run, is_settled=False)


NEWEST = Offset("id", {0: 9, 1: 9}, 2_000, 2, 1)
BY_TIME = {"admission": "marks", "max_event_time_ms": 2_000}


@pytest.mark.parametrize(
    ("limits", "ends"),
    [
        # Behind the newest mark at its cut, and caught up at the tail, but with marks alone.
        ({}, [NEWEST, replace(NEWEST, position={0: 20, 1: 9})]),
        ({"admission": "marks"}, [NEWEST, NEWEST]),
        # At the last mark that fits a limit on rows, or between two cuts.
        ({"max_rows": 10}, [Offset("id", {0: 5, 1: 3}, 1_000, 1, 1)]),
        ({"max_rows": 4}, [Offset("id", {0: 2, 1: 2}, None, 0, 1)]),
        # A limit smaller than the distance to the next mark still makes a step.
        ({"max_event_time_ms": 1}, [Offset("id", {0: 5, 1: 3}, 1_000, 1, 1)]),
        # Batches by event time end at multiples, and wait for them.
        (BY_TIME, [Offset("id", {0: 5, 1: 3}, 1_000, 1, 1), NEWEST, NEWEST]),
    ],
)
def test_a_batch_ends_where_marks_and_limits_say(limits: Any, ends: list[Offset]) -> None:
    start = START
    for end in ends:
        assert _plan(start, **limits) == end
        start = end


def test_time_alone_makes_a_batch_when_it_rose_by_a_step_or_stands_still() -> None:
    start = NEWEST
    view = View(FLAT, [Mark(3, 2_500, 2_500, {0: 9, 1: 9})], is_newest=True, tail={0: 9, 1: 9})
    assert _plan(start, view) == start
    settled = plan(start, view, Limits(), run=1, is_settled=True)
    assert settled == replace(start, bound=2_500, revision=3)
    assert _plan(start, view, min_time_step_ms=500).bound == 2_500


def test_a_batch_by_event_time_is_made_however_little_time_rose() -> None:
    start = Offset("id", {0: 5, 1: 3}, 1_900, 1, 1)
    view = replace(VIEW, marks=[Mark(2, 2_000, 2_000, {0: 5, 1: 3})])
    limits = Limits("marks", max_event_time_ms=2_000, min_time_step_ms=60_000)
    assert plan(start, view, limits, run=1, is_settled=False).bound == 2_000


def test_a_batch_that_ended_at_a_multiple_goes_on_to_the_next() -> None:
    limits = Limits("marks", max_event_time_ms=1_000)
    goals = [time_to_reach(replace(START, bound=at), limits) for at in (999, 1_000, 1_001)]
    assert goals == [1_000, 2_000, 2_000]


def test_a_new_run_makes_a_batch_although_nothing_moved() -> None:
    view = View(FLAT, [], is_newest=True, tail={0: 9, 1: 9})
    assert _plan(NEWEST, view, run=2) == replace(NEWEST, run=2)


def test_the_rows_of_a_segment_are_divided_into_equal_parts_that_are_small_enough() -> None:
    assert divided(range(5, 15), None) == [range(5, 15)]
    assert divided(range(5, 15), 10) == [range(5, 15)]
    assert divided(range(5, 15), 9) == [range(5, 10), range(10, 15)]
    assert divided(range(5, 15), 4) == [range(5, 9), range(9, 13), range(13, 15)]


@given(
    cuts=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=6),
    max_rows=st.one_of(st.none(), st.integers(1, 12)),
    step=st.one_of(st.none(), st.integers(1, 2_500)),
)
def test_every_event_is_read_once_and_the_bound_never_falls(
    cuts: list[tuple[int, int]], max_rows: int | None, step: int | None
) -> None:
    marks: list[Mark] = []
    reached = {0: 0, 1: 0}
    for number, (first, second) in enumerate(cuts, start=1):
        reached = {0: reached[0] + first, 1: reached[1] + second}
        marks.append(Mark(number, number * 1_000, number * 1_000, dict(reached)))
    tail = {0: reached[0] + 3, 1: reached[1]}
    at, seen = START, {0: 0, 1: 0}
    for _ in range(200):
        rest = [mark for mark in marks if mark.revision > at.revision]
        view = View(FLAT, rest, is_newest=True, tail=tail)
        limits = Limits(max_rows=max_rows, max_event_time_ms=step)
        end = plan(at, view, limits, run=1, is_settled=True)
        if end == at:
            break
        for segment, offsets in rows_between(FLAT, at.position, end.position).items():
            assert offsets.start == seen[segment]
            seen[segment] = offsets.stop
        assert at.bound is None or (end.bound is not None and end.bound >= at.bound)
        passed = [mark for mark in marks if covers(FLAT, end.position, mark.cut)]
        assert end.bound == (passed[-1].lower if passed else None)
        at = end
    assert down_set(FLAT, at.position) == {n: count for n, count in tail.items() if count}


@given(
    cuts=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 700)), min_size=1, max_size=30),
    known=st.lists(st.integers(1, 8), max_size=30),
    max_rows=st.one_of(st.none(), st.integers(1, 5)),
    is_sealed=st.booleans(),
)
def test_batches_by_event_time_are_the_same_live_and_replayed(
    *,
    cuts: list[tuple[int, int]],
    known: list[int],
    max_rows: int | None,
    is_sealed: bool,
) -> None:
    marks, reached, time = list[Mark](), 0, 0
    for number, (events, rise) in enumerate(cuts, start=1):
        reached, time = reached + events, time + 1 + rise
        marks.append(Mark(number, time, time, {0: reached, 1: 0}))
    if is_sealed:
        marks.append(Mark(len(marks) + 1, END_OF_TIME, END_OF_TIME, {0: reached, 1: 0}))
    limits = Limits(admission="marks", max_event_time_ms=1_000, max_rows=max_rows)

    def ends(steps: list[int]) -> list[Offset]:
        """Plan while so many marks are known, and at last all of them."""
        found = [START]
        for count in [*steps, len(marks)]:
            view = replace(VIEW, marks=marks[:count])
            while (end := _plan_of(found[-1], view, limits)) != found[-1]:
                found.append(end)
        return found

    live = [sum(known[: place + 1]) for place in range(len(known))]
    assert ends(live) == ends([])


def _plan_of(start: Offset, view: View, limits: Limits) -> Offset:
    rest = [mark for mark in view.marks if mark.revision > start.revision]
    return plan(start, replace(view, marks=rest), limits, run=1, is_settled=False)


def test_the_first_batch_begins_at_its_origin_whatever_spark_is_told_later() -> None:
    first = Offset("id", {0: 9, 1: 9}, 2_000, 2, 0)
    end = _plan(first)
    assert end == Offset("id", {0: 20, 1: 9}, 2_000, 2, 1, Origin({0: 9, 1: 9}, 2_000, 2))
    later = Offset("id", {0: 30, 1: 9}, 9_000, 8, 0)
    assert begin(later, end) == first
    following = _plan(end, replace(VIEW, tail={0: 40, 1: 9}))
    assert following.origin == end.origin
    assert begin(end, following) == end


def test_a_checkpoint_from_before_offsets_had_an_origin_goes_on_as_it_was() -> None:
    stored = '{"stream_id": "id", "position": {"0": 9}, "bound": 5, "revision": 2, "run": 1}'
    end = Offset.from_json(json.loads(stored))
    assert json.dumps(end.to_json()) == stored
    first = Offset("id", {0: 7}, None, 0, 0)
    assert begin(first, end) == first
    following = plan(end, replace(VIEW, tail={0: 20}), Limits(), run=2, is_settled=False)
    assert (following.origin, begin(end, following)) == (None, end)


def test_an_offset_with_an_origin_reads_back_as_it_was_written() -> None:
    end = _plan(replace(START, run=0))
    written = json.dumps(end.to_json())
    assert Offset.from_json(json.loads(written)) == end
    assert written.endswith(
        '"run": 1, "origin": {"position": {"0": 0, "1": 0}, "bound": null, "revision": 0}}'
    )
