"""Where a stream begins after a truncation, and where a reader goes on."""

import pytest

from tidegauge.errors import InvalidPositionError
from tidegauge.groups import SegmentRef, join_group, skip_truncated, start
from tidegauge.topology import Position, Segment, Topology
from tidegauge.truncation import spared, truncated_at

SPLIT = Topology(
    [
        Segment(0, sealed_length=100),
        Segment(1),
        Segment(2, predecessors=(0,), sealed_length=20),
        Segment(3, predecessors=(0,)),
        Segment(4, predecessors=(2,)),
    ]
)
TAILS = {0: 100, 1: 50, 2: 20, 3: 30, 4: 10}


@pytest.mark.parametrize(
    ("cut", "segment", "reason"),
    [
        ({9: 0}, 9, "there is no such segment; there are [0, 1, 2, 3, 4]"),
        ({0: 101, 1: 0}, 0, "nothing is there to truncate; it goes from 0 to 100"),
        ({0: -1, 1: 0}, 0, "nothing is there to truncate; it goes from 0 to 100"),
    ],
)
def test_what_lies_outside_the_stream_is_refused(
    cut: Position, segment: int, reason: str
) -> None:
    with pytest.raises(InvalidPositionError) as refused:
        truncated_at(SPLIT, {1: 3}, TAILS, cut)
    assert (refused.value.segment, refused.value.reason) == (segment, reason)
    assert refused.value.stored_position == {0: 0, 1: 3}


def test_what_anybody_needs_is_spared_and_the_rest_begins_at_a_cut() -> None:
    gone = {0: 100, 1: 40, 2: 20, 3: 12}
    assert spared(SPLIT, gone, []) == gone
    assert spared(SPLIT, gone, [{1: 10, 3: 5, 4: 2}]) == {0: 100, 1: 10, 2: 20, 3: 5}
    assert spared(SPLIT, gone, [{4: 2}, {0: 60, 1: 50}]) == {0: 60}


def test_a_reader_goes_on_at_the_first_offsets_behind_whole_segments_that_are_gone() -> None:
    state = join_group(start({"s": SPLIT}, {}), "r")
    skipped = skip_truncated(state, "r", 1, "s", SPLIT, {1: 7, 3: 12, 4: 0})
    assert skipped.completed == {SegmentRef("s", 0): 100, SegmentRef("s", 2): 20}
    assert skipped.readers["r"].owned == {SegmentRef("s", 1): 7, SegmentRef("s", 3): 12}
    assert skipped.unassigned == {SegmentRef("s", 4): 0}
