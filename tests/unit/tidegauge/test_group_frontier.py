"""Where a group stands, named by as few segments as need be."""

from tidegauge.groups import GroupState, SegmentRef
from tidegauge.topology import Segment, Topology

TOPOLOGY = Topology(
    [
        Segment(0, sealed_length=10),
        Segment(1, sealed_length=20),
        Segment(2, predecessors=(0,), sealed_length=0),
        Segment(3, predecessors=(2, 1)),
    ]
)


def _ref(segment: int) -> SegmentRef:
    return SegmentRef("tests/one", segment)


def test_what_was_completed_and_waits_for_others_is_named() -> None:
    state = GroupState(unassigned={_ref(1): 4}, completed={_ref(0): 10, _ref(2): 0})
    assert state.frontier("tests/one", TOPOLOGY) == {1: 4, 2: 0}
