"""The properties find bugs: each of three that are put in on purpose.

Without them `test_promises` finds nothing in as many examples.
"""

import pytest
from hypothesis import Phase, given, settings

from tests.property import honest_writers, scripts
from tests.property.events import Shape
from tests.property.honest_writers import Act, World, live_through
from tests.property.model import Rules
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import KeptReport, Now
from tidegauge.marks import Mark
from tidegauge.topology import Topology


class _NewestCut(RunningCut):
    """Takes each writer's newest position, as Pravega does."""

    def add(self, report: KeptReport, watermark: int | None) -> bool:
        self.release(report.gained, report.time)
        return super().add(report, watermark)


class _Impatient(Marking):
    """Does not wait for writers that registered and have not reported."""

    def emit(self, topology: Topology, settings: StreamSettings, now: Now) -> list[Mark]:
        holders = self._progress.holders
        joining = {one: None for one in holders if one.joining}
        for one in joining:
            del holders[one]
        marks = super().emit(topology, settings, now)
        holders |= joining
        return marks


@settings(max_examples=250, phases=[Phase.generate], report_multiple_bugs=False)
@given(scripts.shapes, honest_writers.rules, honest_writers.acts)
def _marks_are_sound_and_tight(shape: Shape, rules: Rules, acts: list[Act]) -> None:
    world = World(shape, rules)
    live_through(world, acts)
    world.judge.check_tightness()


def test_the_newest_instead_of_the_first_report_is_found_not_to_be_tight(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.aggregator.RunningCut", _NewestCut)
    with pytest.raises(AssertionError, match="need not lie before"):
        _marks_are_sound_and_tight()


def test_a_forgotten_joining_writer_is_found_to_be_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.aggregator.Marking", _Impatient)
    with pytest.raises(AssertionError, match=r"is late at|nobody sealed it"):
        _marks_are_sound_and_tight()


def test_ancestors_that_are_not_implied_are_found_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.topology.Topology.filled", lambda _topology, _number: {})
    with pytest.raises(AssertionError, match=r"is late at|must lie before|is no frontier"):
        _marks_are_sound_and_tight()
