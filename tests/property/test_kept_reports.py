"""Where kept reports are capped, cuts are looser, and nothing else changes.

What is stored of them says all that memory knows, however many come in a transaction.
"""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.property import honest_writers, scripts
from tests.property.events import Shape
from tests.property.honest_writers import Act, World, live_through
from tests.property.model import Rules
from tidegauge.aggregation.outcomes import PassOutcome
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.aggregator import Aggregator
from tidegauge.topology import Topology

PER_WRITER = 3
PER_STREAM = 12
LATE = 10_000


@given(scripts.shapes, honest_writers.rules, honest_writers.acts_with_few_passes)
def test_capped_reports_are_sound_and_reach_the_same_watermarks(
    shape: Shape, rules: Rules, acts: list[Act]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.capping.KEPT_PER_WRITER", PER_WRITER)
        patch.setattr("tidegauge.aggregation.capping.KEPT_PER_STREAM", PER_STREAM)
        world = World(shape, replace(rules, resolution_ms=0, retention_ms=None))
        for act in acts:
            act.run(world)
            assert len(world.core._cut) <= PER_STREAM + len(honest_writers.WRITERS)
        live_through(world, [])
        for due, emitted in world.passes:
            assert [one.lower for one in emitted[-1:]] == [one.lower for one in due[-1:]]
            assert {one.lower for one in emitted} <= {one.lower for one in due}


@given(scripts.shapes, honest_writers.rules, honest_writers.acts_with_few_passes)
def test_an_aggregation_that_is_read_back_is_the_one_that_was_stored(
    shape: Shape, rules: Rules, acts: list[Act]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidegauge.aggregation.capping.KEPT_PER_WRITER", PER_WRITER)
        patch.setattr("tidegauge.aggregation.capping._KEPT_AT_LEAST", PER_WRITER)
        patch.setattr("tidegauge.aggregation.changelog._RESTATED", 1)
        world = World(shape, rules)
        for act in acts:
            act.run(world)
        stored = world.core
        world.restart()
        assert world.core is not stored
        assert [*world.core.inspect(world.now).statuses()] == [
            *stored.inspect(world.now).statuses()
        ]
        assert _when_all_go_on(world.core, world.now) == _when_all_go_on(stored, world.now)


def _when_all_go_on(core: Aggregator, now: Now) -> PassOutcome:
    """Let all writers report, and return what comes of it."""
    for status in [*core.inspect(now).statuses()]:
        incarnation = status.incarnation or None
        core.note_time(status.writer, LATE, {}, incarnation=incarnation, now=now)
    return core.run_pass(now)


class _CountsThinning(RunningCut):
    thinned = 0

    def thin_out(self, writer: Writer) -> None:
        self.thinned += 1
        super().thin_out(writer)


def test_all_writers_are_not_thinned_again_for_each_report_when_little_can_be_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.aggregation.capping.KEPT_PER_STREAM", 4)
    monkeypatch.setattr("tidegauge.aggregator.RunningCut", _CountsThinning)
    core = Aggregator("scope/stream", StreamSettings(), Topology.of_partitions(1))
    now = Now(0, 0)
    core.register("slow", now=now)
    for time in range(20):
        for number in range(50):
            core.note_time(f"writer-{number}", time, {}, now=now)
    assert isinstance(core._cut, _CountsThinning)
    assert core._cut.thinned < 3 * 20 * 50
