"""Reports and writers that nobody needs leave memory, though they refer to each other."""

from tests.garbage import count_of, uncollected
from tests.property.memory import Memory
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import KeptReport, Now, Writer
from tidegauge.aggregator import Aggregator
from tidegauge.topology import Topology

START = Now(0, 0)
SETTINGS = StreamSettings(mark_resolution_ms=0, max_future_skew_ms=None, writer_retention_ms=10)


def _core() -> Aggregator:
    return Aggregator("scope/stream", SETTINGS, Topology.of_partitions(1))


def _note_above_who_holds(core: Aggregator) -> None:
    """Note times of two writers, some above those of the slower one."""
    core.note_time("slow", 5, {0: 1}, now=START)
    for offset in range(2, 10):
        core.note_time("fast", 5 + offset, {0: offset}, now=START)
    core.run_pass(START)


def test_a_writer_that_is_forgotten_leaves_memory() -> None:
    core, later = _core(), Now(20, 20)
    with uncollected():
        for writer in ("gone", "here"):
            core.note_time(writer, 5, {0: 1}, now=START)
        core.run_pass(START)
        core.leave("gone", now=START)
        core.note_time("here", 6, {0: 2}, now=later)
        assert core.run_pass(later).forgotten == ["gone"]
        core.take_changes(compact=True)
        assert count_of(Writer) == 1


def test_a_stream_that_is_sealed_keeps_no_reports_nor_does_what_is_read_back() -> None:
    core, memory = _core(), Memory()
    with uncollected():
        _note_above_who_holds(core)
        memory.apply(core.take_changes())
        core.seal({0: 9}, START)
        memory.apply(core.take_changes())
        assert (core.kept_reports, count_of(KeptReport)) == (0, 0)
        stored = Aggregator.restore("scope/stream", SETTINGS, core.topology, memory.stored())
        assert (stored.kept_reports, count_of(KeptReport)) == (0, 0)
        shown = [*core.inspect(START).statuses()]
        assert [*stored.inspect(START).statuses()] == shown
        assert [(one.writer, one.time, one.position) for one in shown] == [
            ("fast", 14, {0: 9}),
            ("slow", 5, {0: 1}),
        ]
