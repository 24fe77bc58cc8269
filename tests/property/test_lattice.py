"""The laws of the lattice, over random topologies, against sets of enumerated events."""

from functools import reduce
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.events import Events, Shape
from tests.property.topologies import core_topology, positions, scaled_at_random, shapes
from tidegauge.lattice import (
    UnknownSegmentError,
    count_between,
    covers,
    cut_of,
    down_set,
    join,
    precedes,
)
from tidegauge.topology import Position, Segment, Topology

anything = st.data()


def _some(data: st.DataObject, count: int) -> tuple[Shape, Topology, list[dict[int, int]]]:
    shape = data.draw(shapes())
    drawn = [data.draw(positions(shape)) for _ in range(count)]
    return shape, core_topology(shape), drawn


def _listed(shape: Shape, counts: Position) -> Events:
    """Enumerate a vector of counts as it stands, implying nothing."""
    return frozenset(
        (number, index)
        for number in shape.predecessors
        for index in range(counts.get(number, 0))
    )


@given(anything)
def test_a_position_stands_for_its_events_and_all_of_every_ancestor(
    data: st.DataObject,
) -> None:
    shape, topology, [a] = _some(data, 1)
    assert _listed(shape, down_set(topology, a)) == shape.events_of(a)


@given(anything)
def test_a_down_set_is_a_position_for_itself(data: st.DataObject) -> None:
    _, topology, [a] = _some(data, 1)
    assert down_set(topology, down_set(topology, a)) == down_set(topology, a)


@given(anything)
def test_join_is_the_union(data: st.DataObject) -> None:
    shape, topology, [a, b] = _some(data, 2)
    united = shape.events_of(a) | shape.events_of(b)
    assert _listed(shape, join(topology, [a, b])) == united
    assert shape.events_of(join(topology, [a, b])) == united


@given(anything)
def test_join_is_commutative_associative_and_idempotent(data: st.DataObject) -> None:
    _, topology, [a, b, c] = _some(data, 3)
    assert join(topology, [a, b]) == join(topology, [b, a])
    left = join(topology, [join(topology, [a, b]), c])
    assert left == join(topology, [a, join(topology, [b, c])]) == join(topology, [a, b, c])
    assert join(topology, [a, a]) == join(topology, [a])


@given(anything)
def test_covers_is_a_superset(data: st.DataObject) -> None:
    shape, topology, [a, b] = _some(data, 2)
    assert covers(topology, a, b) == (shape.events_of(a) >= shape.events_of(b))


@given(anything)
def test_precedes_is_a_proper_subset(data: st.DataObject) -> None:
    shape, topology, [a, b] = _some(data, 2)
    assert precedes(topology, a, b) == (shape.events_of(a) < shape.events_of(b))
    assert not precedes(topology, a, a)


@given(anything)
def test_a_join_covers_what_the_union_covers(data: st.DataObject) -> None:
    shape, topology, [a, b, x] = _some(data, 3)
    by_union = shape.events_of(a) | shape.events_of(b) >= shape.events_of(x)
    assert covers(topology, join(topology, [a, b]), x) == by_union


@given(anything)
def test_a_cut_is_the_frontier_of_its_events(data: st.DataObject) -> None:
    shape, topology, [a] = _some(data, 1)
    assert cut_of(topology, a) == shape.cut_of(shape.events_of(a))


@given(anything)
def test_a_cut_is_its_own_cut_and_means_the_same_down_set(data: st.DataObject) -> None:
    shape, topology, [a] = _some(data, 1)
    cut = cut_of(topology, a)
    assert cut_of(topology, cut) == cut
    assert shape.events_of(cut) == shape.events_of(a)
    assert down_set(topology, cut) == down_set(topology, a)


@given(anything)
def test_positions_with_the_same_events_have_the_same_cut(data: st.DataObject) -> None:
    shape, topology, [a, b] = _some(data, 2)
    same = shape.events_of(a) == shape.events_of(b)
    assert same == (cut_of(topology, a) == cut_of(topology, b))


@given(anything)
def test_count_between_counts_events(data: st.DataObject) -> None:
    shape, topology, [a, b] = _some(data, 2)
    between = shape.events_of(b) - shape.events_of(a)
    assert count_between(topology, a, b) == len(between)


@given(anything)
def test_cuts_never_go_back_along_a_chain_of_joins(data: st.DataObject) -> None:
    shape, topology, steps = _some(data, 5)
    cuts = [
        cut_of(topology, join(topology, steps[:taken])) for taken in range(1, len(steps) + 1)
    ]
    for before, after in pairwise(cuts):
        assert covers(topology, after, before)
        assert not precedes(topology, after, before)
        assert shape.events_of(after) >= shape.events_of(before)


@given(anything)
def test_joining_cuts_is_cutting_joins(data: st.DataObject) -> None:
    _, topology, [a, b] = _some(data, 2)
    joined = cut_of(topology, join(topology, [a, b]))
    cuts = [cut_of(topology, a), cut_of(topology, b)]
    assert cut_of(topology, join(topology, cuts)) == joined


@st.composite
def _scaled_midway(draw: st.DrawFn) -> tuple[Shape, Shape, list[dict[int, int]]]:
    before = draw(shapes())
    drawn = [draw(positions(before)) for _ in range(3)]
    least = reduce(_maximum, drawn, dict[int, int]())
    return before, scaled_at_random(before, draw, least), drawn


def _maximum(a: dict[int, int], b: dict[int, int]) -> dict[int, int]:
    return {number: max(a.get(number, 0), b.get(number, 0)) for number in a | b}


@given(_scaled_midway())
def test_merging_and_splitting_midway_changes_nothing(
    case: tuple[Shape, Shape, list[dict[int, int]]],
) -> None:
    shape, scaled, [a, b, c] = case
    before, after = core_topology(shape), core_topology(scaled)
    assert join(after, [a, b, c]) == join(before, [a, b, c])
    assert covers(after, a, b) == covers(before, a, b)
    assert precedes(after, a, b) == precedes(before, a, b)
    assert count_between(after, a, b) == count_between(before, a, b)
    assert down_set(after, cut_of(after, a)) == down_set(before, cut_of(before, a))
    assert cut_of(after, cut_of(before, a)) == cut_of(after, a)


MERGED = Topology(
    [
        Segment(0, sealed_length=100),
        Segment(1, sealed_length=100),
        Segment(2, predecessors=(0, 1)),
    ]
)
ONE_SIDED = Topology(
    [
        Segment(0, sealed_length=3),
        Segment(1, sealed_length=0),
        Segment(2, sealed_length=2),
        Segment(3, predecessors=(0, 1)),
        Segment(4, predecessors=(1, 2)),
    ]
)


@pytest.mark.parametrize(
    ("topology", "position", "cut"),
    [
        (MERGED, {}, {0: 0, 1: 0}),
        (MERGED, {0: 100, 1: 40}, {0: 100, 1: 40}),
        (MERGED, {0: 100, 1: 100}, {2: 0}),
        (MERGED, {0: 400, 1: 101}, {2: 0}),
        (ONE_SIDED, {}, {0: 0, 1: 0, 2: 0}),
        (ONE_SIDED, {0: 3}, {2: 0, 3: 0}),
        (ONE_SIDED, {2: 2}, {0: 0, 4: 0}),
    ],
)
def test_a_complete_segment_stays_in_the_cut_until_a_successor_is_open(
    topology: Topology, position: Position, cut: Position
) -> None:
    assert cut_of(topology, position) == cut


def test_counting_backwards_is_never_negative() -> None:
    assert count_between(MERGED, {2: 5}, {0: 100, 1: 40}) == 0
    assert count_between(MERGED, {0: 100, 1: 40}, {2: 5}) == 65


def test_an_offset_beyond_a_sealed_length_is_that_length() -> None:
    assert covers(MERGED, {0: 999, 1: 999}, {2: 0})
    assert covers(MERGED, {0: 100}, {0: 999})
    assert not precedes(MERGED, {0: 100}, {0: 999})


def test_an_unknown_segment_is_refused_by_name() -> None:
    with pytest.raises(UnknownSegmentError, match="there is no segment 7"):
        down_set(MERGED, {7: 0})
