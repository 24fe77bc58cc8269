"""Ranges that continue segments: they tile what is sealed, or the flaw is named."""

import re
from itertools import pairwise

import pytest

from tidegauge.scaling import continued, continuing, equal_parts
from tidegauge.topology import KeyRange, Segment, Topology

QUARTERS = Topology.of_equal_ranges(4)


def _ranges(*edges: float) -> list[KeyRange]:
    return [KeyRange(low, high) for low, high in pairwise(edges)]


def test_a_split_is_continued_by_two_that_share_its_keys() -> None:
    assert continuing(QUARTERS, [1], _ranges(0.25, 0.3, 0.5)) == [
        Segment(4, KeyRange(0.25, 0.3), (1,)),
        Segment(5, KeyRange(0.3, 0.5), (1,)),
    ]


def test_a_merged_segment_continues_all_that_it_was_made_of() -> None:
    assert continuing(QUARTERS, [2, 1], [KeyRange(0.25, 0.75)]) == [
        Segment(4, KeyRange(0.25, 0.75), (1, 2))
    ]


def test_who_owned_no_part_of_a_range_is_not_before_it() -> None:
    ranges = [KeyRange(0.4, 0.75), KeyRange(0.25, 0.4), KeyRange(0.0, 0.25)]
    assert [one.predecessors for one in continuing(QUARTERS, [0, 1, 2], ranges)] == [
        (1, 2),
        (1,),
        (0,),
    ]


def test_segments_that_are_no_neighbours_scale_together() -> None:
    found = continuing(QUARTERS, [0, 3], [KeyRange(0.75, 1.0), *_ranges(0.0, 0.1, 0.25)])
    assert [one.predecessors for one in found] == [(3,), (0,), (0,)]


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


def test_equal_parts_meet_and_end_where_the_whole_does() -> None:
    assert equal_parts(KeyRange(0.1, 0.7), 3) == _ranges(0.1, 0.3, 0.5, 0.7)
    assert equal_parts(KeyRange(0.0, 1.0), 1) == [KeyRange(0.0, 1.0)]
