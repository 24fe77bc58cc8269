"""What stops the following of a stream is told to the query."""

from typing import Any

import pytest

from spark_source._follower import Follower
from spark_source._planner import Offset
from tests.patience import PATIENCE_S
from tidegauge.marks import Mark
from tidegauge.topology import Segment, Topology
from tidegauge.wire.streams import Tail

START = Offset("id", {0: 0}, None, 0, 0)


class _BrokenClient:
    """Answers once, and then fails in a way that nobody foresaw."""

    def __init__(self) -> None:
        self._tails = [
            Tail(
                stream_id="id",
                tail={0: 0},
                first_cut={0: 0},
                topology_revision=0,
                revision=0,
                watermark=None,
                final=False,
            )
        ]

    def topology(self) -> Topology:
        return Topology.of_equal_ranges(1)

    def tail(self, **_: Any) -> Tail:
        if not self._tails:
            message = "nobody foresaw this"
            raise RuntimeError(message)
        return self._tails.pop()

    def close(self) -> None:
        """Close nothing."""


def test_a_failure_that_nobody_foresaw_stops_the_query_too() -> None:
    follower = Follower(_BrokenClient(), START)  # type: ignore[arg-type]
    follower._thread.join(PATIENCE_S)
    with pytest.raises(RuntimeError, match="nobody foresaw this"):
        follower.view(START, None)
    follower.stop()


class _ScalingClient(_BrokenClient):
    """Its stream is scaled, and marked beyond that, right after its tail was read."""

    def __init__(self) -> None:
        super().__init__()
        self._tails = [self._tails[0].model_copy(update={"revision": 1})]
        sealed = Segment(0, sealed_length=0)
        self._topologies = [Topology([sealed, Segment(1, predecessors=(0,))], revision=1)]
        self._topologies.append(Topology.of_equal_ranges(1))

    def topology(self) -> Topology:
        return self._topologies.pop()

    def marks(self, **_: Any) -> list[Mark]:
        return [Mark(1, 1_000, 1_000, {0: 0}), Mark(2, 2_000, 2_000, {1: 0})]


def test_the_topology_knows_every_segment_of_the_marks() -> None:
    follower = Follower(_ScalingClient(), START)  # type: ignore[arg-type]
    with follower._lock:
        topology, marks = follower._topology, list(follower._marks)
    assert [mark.cut for mark in marks] == [{0: 0}, {1: 0}]
    assert 1 in topology
    follower.stop()
