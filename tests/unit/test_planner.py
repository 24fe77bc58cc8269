"""Planning of Spark batches: a function of offsets, marks, topology, tail and limits alone."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from spark_source._planner import Limits, Offset, View, plan, rows_between
from tidegauge.lattice import covers, down_set
from tidegauge.marks import Mark
from tidegauge.topology import KeyRange, Segment, Topology

FLAT = Topology.of_equal_ranges(2)
SPLIT = Topology(
    [
        Segment(0, KeyRange(0, 1), sealed_length=10),
        Segment(1, KeyRange(0, 0.5), (0,)),
        Segment(2, KeyRange(0.5, 1), (0,)),
    ]
)
START = Offset("id", {0: 0, 1: 0}, None, 0, 1)
MARKS = [Mark(1, 1_000, 1_000, {0: 5, 1: 3}), Mark(2, 2_000, 2_000, {0: 9, 1: 9})]
VIEW = View(FLAT, MARKS, is_newest=True, tail={0: 20, 1: 9})


def _plan(start: Offset, view: View = VIEW, run: int = 1, **limits: object) -> Offset:
    wanted = Limits(**limits)  # type: ignore[arg-type]
    return plan(start, view, wanted, run=run, is_settled=False)


def test_behind_the_newest_mark_a_batch_ends_at_its_cut() -> None:
    assert _plan(START) == Offset("id", {0: 9, 1: 9}, 2_000, 2, 1)


def test_caught_up_it_reads_on_to_the_tail() -> None:
    caught_up = _plan(START)
    assert _plan(caught_up) == Offset("id", {0: 20, 1: 9}, 2_000, 2, 1)


def test_admission_by_marks_never_reads_past_one() -> None:
    caught_up = _plan(START)
    assert _plan(caught_up, admission="marks") == caught_up


def test_a_limit_on_rows_ends_at_the_last_mark_that_fits() -> None:
    assert _plan(START, max_rows=10).position == {0: 5, 1: 3}


def test_a_limit_on_rows_may_stop_between_two_cuts() -> None:
    end = _plan(START, max_rows=4)
    assert end.position == {0: 2, 1: 2}
    assert end.bound is None


def test_a_limit_smaller_than_the_distance_to_the_next_mark_still_makes_a_step() -> None:
    assert _plan(START, max_event_time_ms=1).position == {0: 5, 1: 3}


def test_batches_by_event_time_end_at_multiples_and_wait_for_them() -> None:
    first = _plan(START, admission="marks", max_event_time_ms=2_000)
    assert first.bound == 1_000
    second = _plan(first, admission="marks", max_event_time_ms=2_000)
    assert second.bound == 2_000
    assert _plan(second, admission="marks", max_event_time_ms=2_000) == second


def test_time_alone_makes_a_batch_when_it_rose_by_a_step_or_stands_still() -> None:
    start = Offset("id", {0: 9, 1: 9}, 2_000, 2, 1)
    view = View(FLAT, [Mark(3, 2_500, 2_500, {0: 9, 1: 9})], is_newest=True, tail={0: 9, 1: 9})
    assert _plan(start, view) == start
    settled = plan(start, view, Limits(), run=1, is_settled=True)
    assert settled == replace(start, bound=2_500, revision=3)
    assert _plan(start, view, min_time_step_ms=500).bound == 2_500


def test_a_new_run_makes_a_batch_although_nothing_moved() -> None:
    start = Offset("id", {0: 9, 1: 9}, 2_000, 2, 1)
    view = View(FLAT, [], is_newest=True, tail={0: 9, 1: 9})
    assert _plan(start, view, run=2) == replace(start, run=2)


def test_a_successor_is_entered_once_every_predecessor_is_read() -> None:
    start = Offset("id", {0: 4}, None, 0, 1)
    view = View(SPLIT, [], is_newest=True, tail={0: 10, 1: 5, 2: 5})
    first = _plan(start, view)
    assert first.position == {1: 0, 2: 0}
    assert _plan(first, view).position == {1: 5, 2: 5}


def test_the_rows_of_a_batch_follow_from_its_offsets() -> None:
    assert rows_between(SPLIT, {0: 4}, {1: 2, 2: 0}) == {0: range(4, 10), 1: range(2)}


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
