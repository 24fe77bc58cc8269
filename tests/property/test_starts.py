"""Where to start in every segment, as one position, against sets of enumerated events."""

from hypothesis import given
from hypothesis import strategies as st

from tests.property.events import Shape, first
from tests.property.topologies import core_topology, shapes
from tidegauge.starts import starting_position


@given(shapes(), st.data())
def test_a_start_leaves_out_all_that_is_not_wanted_and_nothing_that_is(
    shape: Shape, data: st.DataObject
) -> None:
    offsets = {
        number: data.draw(st.integers(0, 4 if length is None else length))
        for number, length in shape.lengths.items()
    }
    left_out = {
        event
        for number, offset in offsets.items()
        if all(offsets[before] == shape.lengths[before] for before in shape.ancestors(number))
        for event in first(number, offset)
    }
    assert shape.events_of(starting_position(core_topology(shape), offsets)) == left_out
