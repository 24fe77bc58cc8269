"""What stops the following of a stream is told to the query."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from reader_client import StreamClient
from spark_source.following.mark_watch import TopicWatch
from spark_source.logs.embedded import EmbeddedLog
from spark_source.source.follower import Follower
from spark_source.source.planner import Offset
from spark_source.source.unreached import UnreachedMark
from tests.patience import PATIENCE_S, wait_until
from tests.service.api import NOON, Open
from tidegauge.log import Extent
from tidegauge.marks import Mark
from tidegauge.topology import Position, Segment, Topology
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


def _follow(client: Any) -> Follower:
    return Follower(EmbeddedLog(client), client, START)


def test_a_failure_that_nobody_foresaw_stops_the_query_too() -> None:
    follower = _follow(_BrokenClient())
    follower._thread.join(PATIENCE_S)
    with pytest.raises(RuntimeError, match="nobody foresaw this"):
        follower.view(START, None)
    follower.stop()


class _ScalingClient(_BrokenClient):
    """Its stream is scaled, and marked beyond that, right after its tail was read."""

    def __init__(self) -> None:
        super().__init__()
        self._tails = [self._tails[0].model_copy(update={"revision": 1})] * 2
        sealed = Segment(0, sealed_length=0)
        self._topologies = [Topology([sealed, Segment(1, predecessors=(0,))], revision=1)]
        self._topologies.append(Topology.of_equal_ranges(1))

    def topology(self) -> Topology:
        return self._topologies.pop()

    def marks(self, **_: Any) -> list[Mark]:
        return [Mark(1, 1_000, 1_000, {0: 0}), Mark(2, 2_000, 2_000, {1: 0})]


def test_the_topology_knows_every_segment_of_the_marks() -> None:
    follower = _follow(_ScalingClient())
    with follower._lock:
        topology, marks = follower._extent.topology, list(follower._marks)
    assert [mark.cut for mark in marks] == [{0: 0}, {1: 0}]
    assert 1 in topology
    follower.stop()


class _TopicOfOthers:
    """A log that is shorter than the marks say."""

    def extent(self, beyond: Extent | None = None, *, wait_ms: int = 0) -> Extent:
        del beyond, wait_ms
        return Extent(Topology.of_equal_ranges(1), {0: 3}, 1, 1_000, "topic")

    def starts(self) -> Position:
        return {0: 0}

    def start_of(self, time: int) -> Position:
        return {0: time}


class _MarkingClient(_BrokenClient):
    def marks(self, **_: Any) -> list[Mark]:
        return [Mark(1, 1_000, 1_000, {0: 5})]

    def explain(self) -> Any:
        return SimpleNamespace(explanation=SimpleNamespace(in_full="Nobody holds."))


def test_a_mark_that_the_log_does_not_reach_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("spark_source.source.unreached._STUCK_S", 0)
    monkeypatch.setattr("spark_source.source.follower._EXPLAIN_EVERY_S", 0)
    client: Any = _MarkingClient()
    start = replace(START, log_id="topic")
    follower = Follower(_TopicOfOthers(), client, start)
    told = (
        "the mark of 1000 reaches partition 0 to 5, and that is readable to 3: a transaction is "
        "open, or this is another topic than the producers'"
    )
    wait_until(lambda: follower.report(start)["explanation"] == f"Nobody holds. {told}")
    follower.stop()
    assert caplog.messages.count(told) == 1


def test_a_partition_that_the_query_does_not_read_is_called_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("spark_source.source.unreached._STUCK_S", 0)
    mark = Mark(revision=1, lower=1_000, upper=1_000, cut={0: 5, 1: 2})
    assert UnreachedMark().explain(mark, {0: 5}) == (
        "the mark of 1000 reaches partition 1 to 2, and the query does not read that: load all of "
        "the topic, with subscribe"
    )


def test_a_mark_beyond_what_spark_reads_of_a_partition_is_told_while_others_go_on(
    open_shop: Open, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As while a transaction is open in a partition that Spark's own source reads committed."""
    monkeypatch.setattr("spark_source.source.unreached._STUCK_S", 0)
    monkeypatch.setattr("spark_source.following.mark_watch._EXPLAIN_EVERY_S", 0)
    shop = open_shop(max_segments=2)
    shop.note("w", NOON, position={"0": 3, "1": 3})
    shop.note("w", NOON + 1_000, position={"0": 5, "1": 8})
    watch = TopicWatch(StreamClient(shop.url, shop.name))

    def told(first: int, second: int) -> str:
        watch.passed({0: first, 1: second})
        return watch.explanation

    assert told(5, 8) == ""
    sentence = (
        "the mark of 2024-01-01T12:00:01.000Z reaches partition 0 to 5, and that is readable to 4: a "
        "transaction is open, or this is another topic than the producers'"
    )
    assert [told(4, second) for second in (3, 8, 9)] == [sentence] * 3
    assert told(2, 9).startswith(
        "the mark of 2024-01-01T12:00:00.000Z reaches partition 0 to 3"
    )
    assert told(6, 9) == ""
    watch.stop()
    assert caplog.messages.count(sentence) == 1
