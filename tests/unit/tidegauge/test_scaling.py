"""Ranges that continue segments: they tile what is sealed, or the flaw is named."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.scaling import continuation, continued, continuing
from tidegauge.topology import KeyRange, Segment, Topology

QUARTERS = Topology.of_equal_ranges(4)


def _ranges(*edges: float) -> list[KeyRange]:
    return [KeyRange(low, high) for low, high in pairwise(edges)]


@pytest.mark.parametrize(
    ("seal", "ranges", "predecessors"),
    [
        ([1], _ranges(0.25, 0.3, 0.5), [(1,), (1,)]),
        ([2, 1], _ranges(0.25, 0.75), [(1, 2)]),
        # Who owned no part of a range is not before it.
        (
            [0, 1, 2],
            [*_ranges(0.4, 0.75), *_ranges(0.25, 0.4), *_ranges(0, 0.25)],
            [(1, 2), (1,), (0,)],
        ),
        # They need not be neighbours.
        ([0, 3], [*_ranges(0.75, 1), *_ranges(0, 0.1, 0.25)], [(3,), (0,), (0,)]),
    ],
)
def test_a_range_continues_those_that_owned_a_part_of_it(
    seal: list[int], ranges: list[KeyRange], predecessors: list[tuple[int, ...]]
) -> None:
    assert continuing(QUARTERS, seal, ranges) == [
        Segment(number, *one)
        for number, one in enumerate(zip(ranges, predecessors, strict=True), start=4)
    ]


@pytest.mark.parametrize(
    ("ranges", "flaw"),
    [
        (_ranges(0.0, 0.2), r"[0.2, 0.25) is in none of the ranges"),
        ([KeyRange(0.0, 0.1), KeyRange(0.15, 0.25)], r"[0.1, 0.15) is in none of the ranges"),
        ([KeyRange(0.0, 0.2), KeyRange(0.1, 0.25)], r"[0.1, 0.2) is in more than one range"),
        (_ranges(0.0, 0.2, 0.3), r"[0.25, 0.3) is not owned by what is sealed"),
        ([KeyRange(0.0, 0.25), KeyRange(0.5, 0.6)], r"[0.5, 0.6) is not owned by what is"),
        (_ranges(0.0, 0.1, 0.1, 0.25), r"[0.1, 0.1) is empty"),
        ([KeyRange(0.25, 0.0)], r"[0.25, 0) is empty"),
    ],
)
def test_ranges_that_do_not_tile_what_is_sealed_are_refused_with_the_flaw(
    ranges: list[KeyRange], flaw: str
) -> None:
    with pytest.raises(ValueError, match="^" + re.escape(flaw)):
        continuing(QUARTERS, [0], ranges)


def test_a_scaling_is_known_again_and_no_other_is_taken_for_it() -> None:
    ranges = _ranges(0.0, 0.1, 0.25)
    scaled = QUARTERS.scaled({0: 7}, continuing(QUARTERS, [0], ranges))
    assert [one.number for one in continued(scaled, [0], ranges)] == [4, 5]
    assert continued(QUARTERS, [0], ranges) == []
    assert continued(scaled, [0], _ranges(0.0, 0.2, 0.25)) == []
    assert continued(scaled, [0, 1], _ranges(0.0, 0.1, 0.25, 0.5)) == []


def _scaled(topology: Topology, seal: list[int], *edges: float) -> Topology:
    added = continuing(topology, seal, _ranges(*edges))
    return topology.scaled(dict.fromkeys(seal, 7), added)


def test_what_continues_a_segment_that_is_not_known_cannot_be_taken_in() -> None:
    split = _scaled(QUARTERS, [1], 0.25, 0.3, 0.5)
    merged = _scaled(split, [0, 4], 0.0, 0.3)
    told = continuation(merged, 0)
    assert [one.number for one in told] == [0, 4, 6]
    with pytest.raises(ValueError, match="segment 4 continues 1, which is not sealed"):
        QUARTERS.updated(told, merged.revision)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans()), max_size=12), st.integers(0, 12))
def test_who_takes_in_what_continues_a_segment_routes_its_keys_as_the_service_does(
    scalings: list[tuple[int, bool]], known_of: int
) -> None:
    topologies = [QUARTERS]
    for at, splits in scalings:
        topology = topologies[-1]
        growing = sorted(topology.unsealed, key=lambda one: topology[one].key_range or (0, 0))
        seal = growing[at % len(growing) :][: 1 if splits else 2]
        low, high = topology[seal[0]].key_range, topology[seal[-1]].key_range
        assert low
        assert high
        middle = [(low.low + high.high) / 2] * splits
        topologies.append(_scaled(topology, seal, low.low, *middle, high.high))
    former, newest = topologies[min(known_of, len(scalings))], topologies[-1]
    for number in former.unsealed:
        owned = former[number].key_range
        if newest[number].sealed_length is None or owned is None:
            continue
        try:
            known = former.updated(continuation(newest, number), newest.revision)
        except ValueError:
            continue  # a writer asks then
        for share in (0, 0.3, 0.7, 0.99):
            key = owned.low + share * (owned.high - owned.low)
            assert known.route(key) == newest.route(key)
