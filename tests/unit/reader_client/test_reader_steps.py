"""What a reader does to the state of its group at each `read_next`."""

from reader_client._share import step
from tidegauge.groups import GroupState, ReaderState, SegmentRef
from tidegauge.topology import Segment, Topology

STREAM = "s/one"
ZERO, ONE, TWO = (SegmentRef(STREAM, number) for number in range(3))


def _step(state: GroupState, topology: Topology) -> GroupState:
    return step(state, "a", 1, {}, {STREAM: topology})


def test_a_sealed_segment_that_is_read_gives_way_to_those_that_continue_it() -> None:
    split = Topology(
        [Segment(0, sealed_length=7), Segment(1, predecessors=(0,)), Segment(2, None, (0,))]
    )
    found = _step(GroupState({"a": ReaderState(1, {ZERO: 7})}, epochs=1), split)
    assert found.completed == {ZERO: 7}
    assert found.readers["a"].owned == {ONE: 0, TWO: 0}


def test_a_segment_that_opened_after_the_topology_was_read_is_left_for_the_next_step() -> None:
    unassigned = {ZERO: 3, ONE: 0}
    state = GroupState({"a": ReaderState(1)}, unassigned, epochs=1)
    found = _step(state, Topology([Segment(0)]))
    assert found.readers["a"].owned == {ZERO: 3}
    assert found.unassigned == {ONE: 0}
