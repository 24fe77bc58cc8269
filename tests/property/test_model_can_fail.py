"""The properties find bugs: each of three that are put in on purpose.

Without them `test_promises` finds nothing in as many examples.
"""

from collections.abc import Callable

import pytest
from hypothesis import Phase, given, settings

from tests.property import scripts, simulation
from tests.property.events import Shape
from tests.property.model import Rules
from tests.property.simulation import Act, World, live_through
from tidegauge.aggregation.aggregator import Aggregator
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import KeptReport, Now
from tidegauge.marks import Mark
from tidegauge.topology import Topology


class _NewestCut(RunningCut):
    def add(self, report: KeptReport, watermark: int | None) -> bool:
        self.release(report.gained, report.time)
        return super().add(report, watermark)


class NewestInsteadOfFirst(Aggregator):
    """Takes each writer's newest position, as Pravega does."""

    def __init__(self, stream: str, settings: StreamSettings, topology: Topology) -> None:
        super().__init__(stream, settings, topology)
        self._cut = self._marking._cut = _NewestCut()


class _Impatient(Marking):
    def emit(self, topology: Topology, settings: StreamSettings, now: Now) -> list[Mark]:
        holders = self._progress.holders
        joining = {one: None for one in holders if one.joining}
        for one in joining:
            del holders[one]
        marks = super().emit(topology, settings, now)
        holders |= joining
        return marks


class JoiningForgotten(Aggregator):
    """Does not wait for writers that registered and have not reported."""

    def __init__(self, stream: str, settings: StreamSettings, topology: Topology) -> None:
        super().__init__(stream, settings, topology)
        self._marking = _Impatient(
            roster=self._roster,
            progress=self._progress,
            cut=self._cut,
            changelog=self._changelog,
        )


def _property(core_class: type[Aggregator]) -> Callable[[], None]:
    @settings(max_examples=250, phases=[Phase.generate], report_multiple_bugs=False)
    @given(scripts.shapes, simulation.rules, simulation.acts)
    def marks_are_sound_and_tight(shape: Shape, rules: Rules, acts: list[Act]) -> None:
        world = World(shape, rules, core_class)
        live_through(world, acts)
        world.judge.check_tightness()

    return marks_are_sound_and_tight


def test_the_newest_instead_of_the_first_report_is_found_not_to_be_tight() -> None:
    with pytest.raises(AssertionError, match="need not lie before"):
        _property(NewestInsteadOfFirst)()


def test_a_forgotten_joining_writer_is_found_to_be_late() -> None:
    with pytest.raises(AssertionError, match="is late at"):
        _property(JoiningForgotten)()


def test_ancestors_that_are_not_implied_are_found_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tidegauge.topology.Topology.filled", lambda _topology, _number: {})
    with pytest.raises(AssertionError, match=r"is late at|must lie before|is no frontier"):
        _property(Aggregator)()
