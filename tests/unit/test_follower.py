"""What stops the following of a stream is told to the query."""

from typing import Any

import pytest

from spark_source._follower import Follower
from spark_source._planner import Offset
from tests.patience import PATIENCE_S
from tidegauge.topology import Topology
from tidegauge.wire.streams import Tail

START = Offset("id", {0: 0}, None, 0, 0)


class _BrokenClient:
    """Answers once, and then fails in a way that nobody foresaw."""

    def __init__(self) -> None:
        self._tails = [
            Tail(
                stream_id="id",
                tail={0: 0},
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
