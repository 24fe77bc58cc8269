"""Where kept reports are capped, cuts are looser, and nothing else changes."""

from dataclasses import replace

import pytest
from hypothesis import given

from tests.property import honest_writers, scripts
from tests.property.events import Shape
from tests.property.honest_writers import Act, World, live_through
from tests.property.model import Rules
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.topology import Topology

PER_WRITER = 3
PER_STREAM = 12


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


class _CountsThinning(RunningCut):
    thinned = 0

    def thin_out(self, writer: Writer) -> None:
        self.thinned += 1
        super().thin_out(writer)


def test_all_writers_are_not_thinned_again_for_each_report_when_little_can_be_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.aggregation.capping.KEPT_PER_STREAM", 4)
    monkeypatch.setattr("tidegauge.aggregation.aggregator.RunningCut", _CountsThinning)
    core = Aggregator("scope/stream", StreamSettings(), Topology.of_partitions(1))
    now = Now(0, 0)
    core.register("slow", now=now)
    for time in range(20):
        for number in range(50):
            core.note_time(f"writer-{number}", time, {}, now=now)
    assert isinstance(core._cut, _CountsThinning)
    assert core._cut.thinned < 3 * 20 * 50
