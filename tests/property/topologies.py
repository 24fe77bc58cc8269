"""Random topologies, for the core and as sets of events."""

from hypothesis import strategies as st

from tests.property.events import Offsets, Shape
from tidegauge.topology import Segment, Topology

SOME = st.integers(1, 15)
"""A set of up to four things, as bits; at least one of them."""


def chosen(things: list[int], bits: int) -> list[int]:
    """Pick things by the bits of a number, at least one."""
    return [thing for at, thing in enumerate(things) if bits >> (at % 4) & 1] or things[:1]


def core_topology(shape: Shape) -> Topology:
    return Topology(
        Segment(number, predecessors=before, sealed_length=shape.lengths[number])
        for number, before in shape.predecessors.items()
    )


def scaled_at_random(shape: Shape, draw: st.DrawFn, least: Offsets) -> Shape:
    """Seal some growing segments at or beyond given lengths, and let others continue them."""
    sealed = chosen(shape.growing, draw(SOME))
    lengths = {number: least.get(number, 0) + draw(st.integers(0, 3)) for number in sealed}
    successors = draw(st.lists(SOME, min_size=1, max_size=3))
    number = len(shape.predecessors)
    return shape.scaled(
        lengths,
        {number + at: tuple(chosen(sealed, bits)) for at, bits in enumerate(successors)},
    )


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """Splits, merges, both at once, and empty sealed segments among them."""
    shape = Shape.of(draw(st.integers(1, 3)))
    for _ in range(draw(st.integers(0, 3))):
        shape = scaled_at_random(shape, draw, {})
    return shape


def positions(shape: Shape) -> st.SearchStrategy[dict[int, int]]:
    """Any segments at any offsets, beyond sealed lengths too."""
    return st.dictionaries(
        st.sampled_from(list(shape.predecessors)), st.integers(0, 4), max_size=3
    )
