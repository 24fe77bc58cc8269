"""The changelog stays short, whether the mark moves or stands, and however it is compacted."""

import pytest

from tests.property.memory import Memory
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.topology import Topology

SHORT = 32
"""A log of so few items is not worth compacting."""
SETTINGS = StreamSettings(max_future_skew_ms=None)


@pytest.mark.parametrize("step_ms", [0, 1])
def test_few_reports_are_stored_however_many_come(step_ms: int) -> None:
    core, memory = Aggregator("scope/stream", SETTINGS, Topology.of_partitions(1)), Memory()
    now = Now(0, 0)
    for number in range(2_000):
        core.note_time("a", 5 + number * step_ms, {0: number}, now=now)
        core.note_time("b", 5 + number * step_ms, {}, now=now)
        core.run_pass(now)
        memory.apply(core.take_changes())
        assert len(memory.reports) <= SHORT + 4
    stored = Aggregator.restore("scope/stream", SETTINGS, core.topology, memory.stored())
    for one in (core, stored):
        one.note_time("a", 10_000, {}, now=now)
        one.note_time("b", 10_000, {}, now=now)
        assert [mark.cut for mark in one.run_pass(now).marks][-1] == {0: 1_999}


def test_a_log_of_many_writers_is_compacted_a_few_at_a_time() -> None:
    core, memory = Aggregator("scope/stream", SETTINGS, Topology.of_partitions(1)), Memory()
    now, names = Now(0, 0), [f"writer-{number}" for number in range(2_000)]
    longest = restated = 0
    for time in range(1, 10):
        for at in range(0, len(names), 100):
            for name in names[at : at + 100]:
                core.note_time(name, time, {}, now=now)
            core.run_pass(now)
            changes = core.take_changes()
            if time > 1:
                assert len(changes.entry.writers) <= 256 + 100
                restated += len(changes.entry.writers)
            memory.apply(changes)
            longest = max(longest, sum(one.length for one in memory.entries))
    assert longest <= 7 * len(names)
    assert restated <= 8 * len(names) // 2
