"""Stored reports are given up as others come, whether the mark moves or stands."""

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.topology import Topology

FEW = 64
"""So many are stored without looking which are needless."""


@pytest.mark.parametrize(("step_ms", "most"), [(0, 2 * FEW), (1, FEW + 2)])
def test_few_reports_are_stored_however_many_come(step_ms: int, most: int) -> None:
    settings = StreamSettings(max_future_skew_ms=None)
    core, memory, now = (
        Aggregator("scope/stream", settings, Topology.of_partitions(1)),
        Memory(),
        Now(0, 0),
    )
    for number in range(2_000):
        core.note_time("a", 5 + number * step_ms, {0: number}, now=now)
        core.note_time("b", 5 + number * step_ms, {}, now=now)
        core.run_pass(now)
        core.fold_along()
        memory.apply(core.take_changes())
        assert len(memory.reports) <= most
    stored = Aggregator.restore("scope/stream", settings, core.topology, memory.stored())
    for one in (core, stored):
        one.note_time("a", 10_000, {}, now=now)
        one.note_time("b", 10_000, {}, now=now)
        assert [mark.cut for mark in one.run_pass(now).marks][-1] == {0: 1_999}


def test_what_a_mark_of_the_same_transaction_took_in_is_stored_once_for_each_writer() -> None:
    settings = StreamSettings(max_future_skew_ms=None)
    core, memory = Aggregator("scope/stream", settings, Topology.of_partitions(2)), Memory()
    now = Now(0, 0)
    for number in range(100):
        core.note_time("a", number, {number % 2: number}, now=now)
        core.note_time("b", number, {}, now=now)
    core.note_time("a", 200, {0: 200}, now=now)
    core.run_pass(now)
    memory.apply(core.take_changes())
    assert memory.reports == [
        (199, "a", 99, {0: 98, 1: 99}, 0),
        (200, "b", 99, {}, 0),
        (201, "a", 200, {0: 200}, 0),
    ]
