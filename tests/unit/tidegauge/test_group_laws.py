"""The laws that the service checks on every change of a group's state, each broken by hand."""

from dataclasses import replace

import pytest

from tidegauge.errors import InvalidTransitionError, ReaderFencedError
from tidegauge.groups import GroupState, ReaderState, SegmentRef, check_change, go_offline
from tidegauge.topology import Segment, Topology

STREAM = "s/one"
ZERO, ONE, TWO = (SegmentRef(STREAM, number) for number in range(3))
TOPOLOGIES = {
    STREAM: Topology([Segment(0, sealed_length=10), Segment(1), Segment(2, predecessors=(0,))])
}
"""Segment 0 is sealed at 10 and goes on in 2; 1 grows."""
BEFORE = GroupState(
    readers={"a": ReaderState(1, {ZERO: 4}), "b": ReaderState(2, {ONE: 7})}, epochs=2
)


def _with(**readers: ReaderState) -> GroupState:
    return replace(BEFORE, readers=dict(BEFORE.readers) | readers)


@pytest.mark.parametrize(
    ("after", "law"),
    [
        (replace(BEFORE, epochs=1), "epochs cannot go back from 2 to 1"),
        (_with(a=ReaderState(3, {ZERO: 4})), "epoch 3 of reader 'a' was not given out"),
        (replace(BEFORE, unassigned={ONE: 7}), "segment 1 of s/one is in two places"),
        (_with(b=ReaderState(2)), "segment 1 of s/one must not get lost"),
        (_with(b=ReaderState(2, {ONE: -1})), "offset -1 of segment 1 of s/one cannot be"),
        (_with(a=ReaderState(1, {ZERO: 11})), "offset 11 of segment 0 of s/one cannot be"),
        (
            replace(BEFORE, unassigned={SegmentRef(STREAM, 3): 0}),
            "the group does not read segment 3 of s/one",
        ),
        (
            replace(BEFORE, unassigned={TWO: 0}),
            "segment 2 of s/one opens once all before it are complete",
        ),
        (
            replace(_with(a=ReaderState(1)), completed={ZERO: 10}),
            "segment 2 of s/one is open and must not get lost",
        ),
        (_with(a=ReaderState(1, {ZERO: 3})), "segment 0 of s/one cannot go back from 4 to 3"),
        (
            replace(BEFORE, readers={"a": ReaderState(1, {ZERO: 3})}, unassigned={ONE: 7}),
            "segment 0 of s/one cannot go back from 4 to 3",
        ),
    ],
)
def test_a_change_that_breaks_a_law_is_refused(after: GroupState, law: str) -> None:
    with pytest.raises(InvalidTransitionError, match=law):
        check_change(BEFORE, after, TOPOLOGIES)


def test_nobody_speaks_for_a_name_that_was_taken_over() -> None:
    taken_over = replace(BEFORE, readers={"a": ReaderState(3, {ZERO: 4, ONE: 7})}, epochs=3)
    with pytest.raises(ReaderFencedError):
        check_change(taken_over, replace(BEFORE, epochs=3), TOPOLOGIES)


def test_a_reader_does_not_go_back_before_a_segment_whose_successors_are_open() -> None:
    state = replace(_with(a=ReaderState(1)), completed={ZERO: 10}, unassigned={TWO: 0})
    with pytest.raises(InvalidTransitionError, match="go back to a checkpoint instead"):
        go_offline(state, "a", 1, TOPOLOGIES, {ZERO: 9})
    assert go_offline(state, "a", 1, TOPOLOGIES, {ZERO: 10}).completed == {ZERO: 10}
