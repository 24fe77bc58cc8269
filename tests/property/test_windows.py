"""Time windows against sets of enumerated events."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property import honest_writers, scripts
from tests.property.events import Shape
from tests.property.honest_writers import Act, World, live_through
from tests.property.model import Rules
from tests.property.topologies import positions
from tidegauge.windows import time_window


@given(scripts.shapes, honest_writers.acts, st.data())
def test_a_window_is_the_last_mark_covered_and_the_first_mark_ahead(
    shape: Shape, acts: list[Act], data: st.DataObject
) -> None:
    world = World(shape, Rules())
    live_through(world, acts)
    position = data.draw(positions(world.model.shape))
    events = world.model.shape.events_of(position)
    passed = [one.mark.lower for one in world.judge.judged if one.events <= events]
    ahead = [one.mark.upper for one in world.judge.judged if one.events > events]
    marks = [one.mark for one in world.judge.judged]
    window = time_window(world.core.topology, marks, position)
    assert window.lower == (passed[-1] if passed else None)
    assert window.upper == (ahead[0] if ahead else None)
