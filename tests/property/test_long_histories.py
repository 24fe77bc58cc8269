"""Streams that were scaled thousands of times, most of it while nothing was written.

Each function that walks over segments is called once on each history: one that took every path
through it, or looked at all that lies before each segment, would not end. Short histories of the
same shapes are compared with sets of enumerated events.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest

from spark_source.source import planner
from tests.property.events import Shape
from tidegauge import groups, scaling, truncation, windows
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.groups import SegmentRef
from tidegauge.lattice import count_between, covers, cut_of, down_set, join, precedes
from tidegauge.marks import Mark
from tidegauge.starts import starting_position
from tidegauge.topology import KeyRange, Segment, Topology
from tidegauge.wire.streams import TopologyDescriptions, TopologyInfo

STREAM = "s/one"
SEGMENTS = 10_000
WHOLE, LOW, HIGH = KeyRange(0, 1), KeyRange(0, 0.5), KeyRange(0.5, 1)
HISTORIES = {
    "a chain": [[WHOLE]],
    "diamonds": [[WHOLE], [LOW, HIGH]],
    "braids": [[LOW, HIGH], [KeyRange(0, 0.3), KeyRange(0.3, 1)]],
}
"""The ranges of the segments of each generation, in turn; each is sealed as a whole."""
LENGTHS = {"nothing": [0], "little": [3, 0, 0, 0, 0, 0, 0]}
"""How many events the sealed segments have, in turn."""


@cache
def history(kind: str, written: str, segments: int) -> Topology:
    """Make a topology of at least so many segments; only the first generation always has events."""
    generations, lengths = HISTORIES[kind], LENGTHS[written]
    made = [Segment(n, one, sealed_length=2) for n, one in enumerate(generations[0])]
    former, at = list(made), 0
    while len(made) < segments:
        at += 1
        added: list[Segment] = []
        for low, high in generations[at % len(generations)]:
            overlap = [
                one.number
                for one in former
                if one.key_range and one.key_range.low < high and low < one.key_range.high
            ]
            number = len(made) + len(added)
            length = lengths[number % len(lengths)]
            added.append(Segment(number, KeyRange(low, high), tuple(overlap), length))
        made += added
        former = added
    ends = [Segment(one.number, one.key_range, one.predecessors) for one in former]
    return Topology([*made[: -len(former)], *ends], revision=at)


def shape_of(topology: Topology) -> Shape:
    segments = topology.segments.values()
    return Shape(
        {one.number: one.predecessors for one in segments},
        {one.number: one.sealed_length for one in segments},
    )


def tails(topology: Topology) -> dict[int, int]:
    return {
        n: 5 if one.sealed_length is None else one.sealed_length
        for n, one in topology.segments.items()
    }


def ends(topology: Topology) -> dict[int, int]:
    return dict.fromkeys(topology.unsealed, 1)


def marks(topology: Topology) -> list[Mark]:
    """Ten marks along a history."""
    numbers = topology.in_order[:: 1 + len(topology.segments) // 10]
    cuts = [cut_of(topology, {number: 0}) for number in numbers]
    return [Mark(n, n, n, cut) for n, cut in enumerate(cuts, 1)]


def read_group(topology: Topology) -> groups.GroupState:
    """Read the first generation to its end as a reader does, then what opens, and look at it."""
    named = {STREAM: topology}
    before = groups.start(named, {})
    state = groups.join_group(before, "r")
    for ref in sorted(state.unassigned):
        state = groups.acquire(state, "r", 1, ref)
        end = topology[ref.segment].sealed_length
        state = groups.advance(state, "r", 1, {ref: end or 0})
        if end is not None:
            state = groups.complete(state, "r", 1, ref, topology)
    groups.check_change(before, state, named)
    assert state.frontier(STREAM, topology)
    return state


def skip_to_the_end(topology: Topology) -> groups.GroupState:
    named = {STREAM: topology}
    before = groups.join_group(groups.start(named, {}), "r")
    state = groups.skip_truncated(before, "r", 1, STREAM, topology, ends(topology))
    groups.check_change(before, state, named)
    assert state.readers["r"].owned == {SegmentRef(STREAM, n): 1 for n in topology.unsealed}
    return state


def aggregate(topology: Topology) -> None:
    """Report before the first scaling and after the last, restart the writer, and seal."""
    settings = StreamSettings(mark_resolution_ms=0, max_future_skew_ms=None)
    aggregator = Aggregator(STREAM, settings, topology)
    for time, position in enumerate([{0: 1}, ends(topology), ends(topology)], 1):
        now = Now(wall_ms=time, listening_ms=time)
        aggregator.note_time("w", time, position, now=now, incarnation=time // 3)
        assert len(aggregator.run_pass(now).marks) == 1
    assert aggregator.newest is not None
    assert aggregator.newest.cut == cut_of(topology, ends(topology))
    aggregator.seal(dict.fromkeys(topology.unsealed, 5), Now(wall_ms=9, listening_ms=9))


def plan_batches(topology: Topology) -> None:
    start = planner.Offset("id", {0: 0}, None, 0, 1)
    view = planner.View(topology, marks(topology), is_newest=True, tail=tails(topology))
    for most in (None, 1, 10**9):
        limits = planner.Limits(max_rows=most, end=ends(topology))
        planned = planner.plan(start, view, limits, run=1, is_settled=True)
        planner.rows_between(topology, start.position, planned.position)


def describe(topology: Topology) -> None:
    """Describe the segments as the service does, read that as a client does, and count the events left."""
    described = TopologyDescriptions().of(topology).model_dump_json()
    read = TopologyInfo.model_validate_json(described).to_topology()
    assert read.in_order == topology.in_order
    gone = truncation.truncated_at(read, {}, tails(read), cut_of(read, ends(read)))
    assert sum(tails(read).values()) - sum(gone.values()) == 4 * len(topology.unsealed)


def scale(topology: Topology) -> None:
    for number in (0, topology.unsealed[0]):
        scaling.continuation(topology, number)
        scaling.continued(topology, [number], [WHOLE])
    number = topology.unsealed[0]
    owned = topology[number].key_range
    assert owned is not None
    added = scaling.continuing(topology, [number], scaling.equal_parts(owned, 2))
    grown = topology.scaled({number: 0}, added)
    assert grown.route(owned.low) == added[0].number
    assert cut_of(grown, ends(grown)).keys() == set(grown.unsealed)


def follow(topology: Topology) -> None:
    known = Topology(list(topology.segments.values())[:2])
    later = known.updated(topology.segments.values(), topology.revision)
    assert later.in_order == topology.in_order
    assert later.full_before == topology.full_before
    assert later.successors == topology.successors


def truncate(topology: Topology) -> None:
    cut = cut_of(topology, ends(topology))
    gone = truncation.truncated_at(topology, {}, tails(topology), cut)
    assert gone == down_set(topology, cut)
    assert truncation.spared(topology, gone, [{0: 1}]) == {0: 1}


def find_windows(topology: Topology) -> None:
    found = marks(topology)
    assert windows.time_window(topology, found, ends(topology)).lower == len(found)
    windows.time_window(topology, found, {0: 0})


def start_reading(topology: Topology) -> None:
    starting_position(topology, {})
    assert starting_position(topology, tails(topology)) == dict.fromkeys(topology.unsealed, 5)


def compare(topology: Topology) -> None:
    end = ends(topology)
    assert down_set(topology, join(topology, [{0: 1}, end])) == down_set(topology, end)
    assert covers(topology, end, {0: 1})
    assert precedes(topology, {0: 1}, end)
    assert count_between(topology, end, {0: 1}) == 0
    assert cut_of(topology, end) == end
    for position in ({}, {0: 2}, dict.fromkeys(range(8), 2)):
        cut = cut_of(topology, position)
        assert cut_of(topology, cut) == cut


WALKS: Mapping[str, Callable[[Topology], Any]] = {
    one.__name__: one
    for one in (
        aggregate,
        compare,
        describe,
        find_windows,
        follow,
        plan_batches,
        read_group,
        scale,
        skip_to_the_end,
        start_reading,
        truncate,
    )
}


@pytest.mark.parametrize("walk", WALKS)
@pytest.mark.parametrize("written", LENGTHS)
@pytest.mark.parametrize("kind", HISTORIES)
def test_every_walk_over_a_long_history_ends(kind: str, written: str, walk: str) -> None:
    WALKS[walk](history(kind, written, SEGMENTS))


@pytest.mark.parametrize("written", LENGTHS)
@pytest.mark.parametrize("kind", HISTORIES)
def test_a_short_history_is_what_its_events_say(kind: str, written: str) -> None:
    for segments in range(1, 12):
        topology = history(kind, written, segments)
        shape = shape_of(topology)
        named = [{n: at} for n in topology.segments for at in (0, 1, 3)]
        positions = [{}, *named, *(one | named[-1] for one in named)]
        events = [shape.events_of(one) for one in positions]
        one, other = positions[-len(named) // 2], events[-len(named) // 2]
        for position, held in zip(positions, events, strict=True):
            assert cut_of(topology, position) == shape.cut_of(held)
            assert sum(down_set(topology, position).values()) == len(held)
            assert covers(topology, position, one) == (held >= other)
            assert precedes(topology, position, one) == (held < other)
            assert count_between(topology, one, position) == len(held - other)


@pytest.mark.parametrize("written", LENGTHS)
@pytest.mark.parametrize("kind", HISTORIES)
def test_a_group_opens_what_has_all_before_it_read(kind: str, written: str) -> None:
    for segments in range(1, 40):
        topology = history(kind, written, segments)
        for state in (read_group(topology), skip_to_the_end(topology)):
            done = {ref.segment for ref in state.completed}
            opened = {
                n for n, one in topology.segments.items() if done.issuperset(one.predecessors)
            }
            assert {ref.segment for ref in state.offsets} == opened
            assert all(topology[ref.segment].sealed_length != 0 for ref in state.unassigned)


@pytest.mark.parametrize("kind", HISTORIES)
def test_what_continues_a_segment_is_all_that_follows_and_what_that_continues(
    kind: str,
) -> None:
    topology = history(kind, "nothing", 30)
    for number in topology.segments:
        found = {one.number for one in scaling.continuation(topology, number)}
        wanted = {number}
        while True:
            after = {n for one in wanted for n in topology.successors[one]}
            more = after | {before for one in after for before in topology[one].predecessors}
            if more <= wanted:
                break
            wanted |= more
        assert found == wanted
