"""Which writers are listed as the slowest, while they go on, and how old segments are read."""

from tidegauge import Aggregator, Now, StreamSettings, Topology
from tidegauge.wire.streams import TopologyInfo

SECOND = 1_000


class Crowd:
    """A stream with some writers, each of which stands a second behind the next."""

    def __init__(self, writers: int = 50) -> None:
        self.now = Now(SECOND, SECOND)
        self.core = Aggregator("a/b", StreamSettings(), Topology.of_partitions(1))
        for number in reversed(range(writers)):
            self.note(f"w{number:03}", number * SECOND)
        self.core.run_pass(self.now)

    def note(self, writer: str, time: int) -> None:
        self.core.note_time(writer, time, {}, now=self.now)

    def later(self, by_ms: int) -> None:
        self.now = Now(self.now.wall_ms + by_ms, self.now.listening_ms + by_ms)

    def slowest(self, count: int) -> list[str]:
        return [one.writer for one in self.core.inspect(self.now).slowest(count)]


def test_the_slowest_are_those_that_stand_lowest_now() -> None:
    crowd = Crowd()
    assert crowd.slowest(3) == ["w000", "w001", "w002"]
    crowd.note("w000", 90 * SECOND)
    crowd.note("w001", 2 * SECOND)
    assert crowd.slowest(2) == ["w001", "w002"]
    assert crowd.slowest(60)[-1] == "w000"


def test_who_left_is_none_of_them_and_who_stands_nowhere_comes_first() -> None:
    crowd = Crowd()
    crowd.core.leave("w000", now=crowd.now)
    assert crowd.slowest(2) == ["w001", "w002"]
    fresh = Aggregator("a/b", StreamSettings(), Topology.of_partitions(1))
    fresh.note_time("a", 5, {}, now=crowd.now)
    fresh.register("z", now=crowd.now)
    found = fresh.inspect(crowd.now).slowest(2)
    assert [(one.writer, one.stand) for one in found] == [("z", None), ("a", 5)]


def test_all_writers_are_looked_through_once_a_second_at_most() -> None:
    crowd = Crowd(writers=300)
    assert crowd.slowest(1) == ["w000"]
    for number in range(99):
        crowd.note(f"w{number:03}", 400 * SECOND)
    assert crowd.slowest(1) == ["w099"]
    crowd.note("w099", 399 * SECOND)
    assert crowd.slowest(1) == ["w099"]  # of the hundred that were the slowest a moment ago
    crowd.later(SECOND)
    assert crowd.slowest(1) == ["w100"]


def test_segments_of_an_older_database_tell_no_times() -> None:
    segment = '{"number":0,"low":null,"high":null,"predecessors":[],"sealed_length":null}'
    stored = TopologyInfo.model_validate_json(f'{{"revision":0,"segments":[{segment}]}}')
    (read,) = stored.to_topology().segments.values()
    assert (read.opened_ms, read.sealed_ms) == (None, None)
