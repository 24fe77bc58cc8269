"""Which marks a batch read asks for: those between its start and its end, not all there are."""

from spark_source.data_source import _marks_between
from spark_source.source.planner import Offset
from tidegauge.marks import Mark
from tidegauge.topology import Topology

TOPOLOGY = Topology.of_equal_ranges(1)


class Marks:
    """A stream with a mark at every tenth event; remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def marks(self, *, after: int, limit: int) -> list[Mark]:
        self.asked.append(after)
        numbers = range(after + 1, min(100_000, after + limit) + 1)
        return [Mark(n, n * 1_000, n * 1_000, {0: n * 10}) for n in numbers]


def _offset(revision: int, position: int) -> Offset:
    return Offset("one", {0: position}, revision * 1_000, revision, 0)


def test_a_batch_read_asks_for_the_marks_between_its_start_and_its_end() -> None:
    client = Marks()
    found = _marks_between(client, TOPOLOGY, _offset(70_000, 700_005), {0: 702_000}, [0])  # type: ignore[arg-type]
    assert client.asked == [69_999]
    assert (found[0][0][0], found[0][1][0]) == (700_000, 70_000_000)
    assert (found[0][0][-1], found[0][1][-1]) == (702_000, 70_200_000)


def test_a_batch_read_from_before_the_first_mark_asks_from_there() -> None:
    client = Marks()
    found = _marks_between(client, TOPOLOGY, _offset(0, 0), {0: 15_000}, [0])  # type: ignore[arg-type]
    assert client.asked == [0, 1_000]
    assert (found[0][0][0], found[0][0][-1]) == (10, 15_000)
