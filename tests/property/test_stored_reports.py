"""What is stored of reports says all that memory knows, however many come in a transaction."""

from collections.abc import Iterator
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.memory import Memory, memories
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.topology import Position, Topology

SEGMENTS, WRITERS = 3, ("a", "b", "c")
AFTERWARDS = Now(100, 0)
LATE = 1_000
SETTINGS = StreamSettings(max_future_skew_ms=None, mark_resolution_ms=0)


class Said(NamedTuple):
    """A report: by how much its time rises, and how many more events each segment has."""

    writer: str
    later_ms: int
    events: dict[int, int]


class Transaction(NamedTuple):
    """What is stored together."""

    said: list[Said]
    passes: bool
    compacts: bool


_events = st.dictionaries(st.integers(0, SEGMENTS - 1), st.integers(1, 3), max_size=2)
_said = st.builds(Said, st.sampled_from(WRITERS), st.integers(0, 2), _events)
_transactions = st.builds(
    Transaction, st.lists(_said, max_size=6), st.booleans(), st.booleans()
)


@pytest.fixture(autouse=True, scope="module")
def _few_are_kept() -> Iterator[None]:
    """Let reports be dropped that a writer has too many of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.capping.KEPT_PER_WRITER", 3)
        patch.setattr("tidegauge.aggregation.capping._KEPT_AT_LEAST", 3)
        patch.setattr("tidegauge.aggregation.changelog._RESTATED", 1)
        yield


def _live_through(transactions: list[Transaction], memory: Memory) -> Aggregator:
    core = Aggregator("scope/stream", SETTINGS, Topology.of_partitions(SEGMENTS))
    times = dict.fromkeys(WRITERS, 10)
    ends: dict[str, dict[int, int]] = {name: {} for name in WRITERS}
    for number, (said, passes, compacts) in enumerate(transactions):
        now = Now(number, 0)
        for writer, later_ms, events in said:
            times[writer] += later_ms
            position = {n: ends[writer].get(n, 0) + more for n, more in events.items()}
            ends[writer] |= position
            core.note_time(writer, times[writer], position, now=now)
        if passes:
            core.run_pass(now)
        memory.apply(core.take_changes(compact=compacts))
    return core


def _cut_when_all_go_on(core: Aggregator) -> Position:
    for writer in WRITERS:
        core.note_time(writer, LATE, {}, now=AFTERWARDS)
    return core.run_pass(AFTERWARDS).marks[-1].cut


@given(st.lists(_transactions, max_size=8), memories)
def test_an_aggregation_that_is_read_back_is_the_one_that_was_stored(
    transactions: list[Transaction], memory: Memory
) -> None:
    core = _live_through(transactions, memory)
    stored = Aggregator.restore("scope/stream", SETTINGS, core.topology, memory.stored())
    assert [*stored.inspect(AFTERWARDS).statuses()] == [*core.inspect(AFTERWARDS).statuses()]
    assert _cut_when_all_go_on(stored) == _cut_when_all_go_on(core)
