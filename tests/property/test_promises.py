"""Soundness, tightness and the laws of the clocks, with writers that keep their promise."""

from hypothesis import given

from tests.property import scripts, simulation
from tests.property.events import Shape
from tests.property.model import Rules
from tests.property.simulation import Act, World, live_through


@given(scripts.shapes, simulation.rules, simulation.acts)
def test_marks_are_sound_tight_and_never_go_back(
    shape: Shape, rules: Rules, acts: list[Act]
) -> None:
    world = World(shape, rules)
    live_through(world, acts)
    world.judge.check_tightness()
