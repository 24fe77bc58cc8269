"""Soundness, tightness and the laws of the clocks, with writers that keep their promise."""

from hypothesis import given

from tests.property import honest_writers, scripts
from tests.property.events import Shape
from tests.property.honest_writers import Act, World, live_through
from tests.property.model import Rules


@given(scripts.shapes, honest_writers.rules, honest_writers.acts)
def test_marks_are_sound_tight_and_never_go_back(
    shape: Shape, rules: Rules, acts: list[Act]
) -> None:
    world = World(shape, rules)
    live_through(world, acts)
    world.judge.check_tightness()
