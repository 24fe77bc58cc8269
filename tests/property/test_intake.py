"""The short way of usual reports does what the long way does, and takes usual ones only."""

from collections.abc import Mapping
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.property import scripts
from tests.property.events import Shape
from tests.property.model import Rules
from tests.property.pair import Pair
from tests.property.scripts import UNKNOWN_SEGMENT, Step, run_script
from tests.property.topologies import core_topology, positions, shapes
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.writers import Now
from tidegauge.aggregator import Aggregator
from tidegauge.errors import ProblemError
from tidegauge.topology import Position, Segment, Topology

NOW = Now(1_000, 0)


class Report(NamedTuple):
    writer: str
    time: int
    position: Position | None
    incarnation: int | None = None


class OneOfMany(Aggregator):
    """Takes each report as one of many, and goes the long way only where it must."""

    def note_time(
        self,
        writer: str,
        time: int,
        position: Position,
        *,
        now: Now,
        incarnation: int | None = None,
        tails: Position | None = None,
        appended: Position | None = None,
    ) -> None:
        report = Report(writer, time, position, incarnation)
        for _ in self.note_times([report], now=now, tails=tails):
            super().note_time(
                writer,
                time,
                position,
                now=now,
                incarnation=incarnation,
                tails=tails,
                appended=appended,
            )


@given(scripts.shapes, scripts.rules, scripts.scripts)
def test_marks_expiries_and_states_are_those_of_the_model(
    shape: Shape, rules: Rules, script: list[Step]
) -> None:
    run_script(Pair(shape, rules, OneOfMany), script)


@given(scripts.shapes, scripts.rules, scripts.restarted_scripts)
def test_a_core_restored_from_storage_goes_on_the_same(
    shape: Shape, rules: Rules, script: list[Step]
) -> None:
    run_script(Pair(shape, rules, OneOfMany), script)


class Requests(NamedTuple):
    """A topology, where its writers begin, how long its segments are, and what they say then."""

    topology: Topology
    begins: dict[str, Position]
    tails: Position | None
    requests: list[list[Report]]


@st.composite
def _requests(draw: st.DrawFn) -> Requests:
    shape = draw(shapes())
    begins: dict[str, Position] = {writer: draw(positions(shape)) for writer in "abc"}
    growing = st.dictionaries(
        st.sampled_from([*shape.growing, *shape.growing, UNKNOWN_SEGMENT]),
        st.integers(0, 6),
        max_size=2,
    )
    reports = st.builds(
        Report,
        st.sampled_from("abc"),
        st.integers(10, 14) | st.integers(10, 30),
        growing | growing | positions(shape) | st.none(),
        st.sampled_from([None, None, None, None, 1]),
    )
    tails: Position = {number: 5 if n is None else n for number, n in shape.lengths.items()}
    requests = draw(st.lists(st.lists(reports, max_size=12), max_size=6))
    return Requests(
        core_topology(shape), begins, draw(st.sampled_from([None, tails])), requests
    )


@settings(max_examples=settings().max_examples * 2)
@given(_requests())
def test_many_reports_at_once_do_what_they_do_one_by_one(drawn: Requests) -> None:
    together, singly = (_known(drawn.topology, drawn.begins) for _ in range(2))
    tails = drawn.tails
    for request in drawn.requests:
        unusual = together.note_times(request, now=NOW, tails=tails)
        outcomes = {place: _outcome(together, request[place], tails) for place in unusual}
        assert [outcomes.get(at, "accepted") for at in range(len(request))] == [
            _outcome(singly, report, tails) for report in request
        ]
        assert together.run_pass(NOW) == singly.run_pass(NOW)
        assert together.take_changes() == singly.take_changes()
        assert together.states("abc") == singly.states("abc")
        assert [*together.inspect(NOW).statuses()] == [*singly.inspect(NOW).statuses()]
        assert together.inspect(NOW).explain() == singly.inspect(NOW).explain()


def _known(topology: Topology, begins: Mapping[str, Position]) -> Aggregator:
    """One whose writers are all ahead of the watermark."""
    settings = StreamSettings(mark_resolution_ms=0, aggregation_timeout_ms=None)
    stream = Aggregator("scope/stream", settings, topology)
    for time in (5, 10):
        for writer in "abc":
            position = _within(topology, begins[writer])
            stream.note_time(writer, time, position, now=NOW)
        if time == 5:
            stream.run_pass(NOW)
    stream.take_changes()
    return stream


def _within(topology: Topology, position: Position) -> Position:
    """Name no more of a sealed segment than there is."""
    lengths = {n: topology[n].sealed_length for n in position}
    return {
        n: offset if (length := lengths[n]) is None else min(offset, length)
        for n, offset in position.items()
    }


def _outcome(stream: Aggregator, report: Report, tails: Position | None = None) -> str:
    try:
        stream.note_time(
            report.writer,
            report.time,
            report.position or {},
            now=NOW,
            incarnation=report.incarnation,
            tails=tails,
        )
    except ProblemError as error:
        return error.code
    return "accepted"


@pytest.mark.parametrize(
    "report",
    [
        Report("a", 20, {0: 5}),
        Report("a", 20, {0: 4}),
        Report("a", 30, {}),
        Report("a", 1_050, {1: 1}),
        Report("registered", 20, {0: 4}, 1),
        Report("behind", 20, {0: 1}),
    ],
)
def test_a_usual_report_goes_the_short_way(report: Report) -> None:
    stream = _stream()
    assert list(stream.note_times([report], now=NOW)) == []
    assert stream.inspect(NOW).status(report.writer).time == report.time


@pytest.mark.parametrize(
    "report",
    [
        Report("stranger", 20, {0: 5}),
        Report("a", 19, {0: 5}),
        Report("a", 1_051, {0: 5}),
        Report("a", 20, {0: 3}),
        Report("a", 20, {1: 1, 0: 3}),
        Report("a", 20, {2: 1}),
        Report("a", 20, {1: -1}),
        Report("a", 20, None),
        Report("a", 20, {0: 5}, 1),
        Report("registered", 20, {0: 4}),
        Report("registered", 20, {0: 4}, 2),
        Report("joining", 20, {0: 1}, 2),
        Report("left", 20, {0: 1}),
        Report("expired", 20, {0: 1}),
        Report("behind", 10, {0: 1}),
    ],
)
def test_what_is_not_usual_goes_the_long_way(report: Report) -> None:
    stream = _stream()
    usual = Report("a", 20, {0: 5})
    assert list(stream.note_times([usual, report, usual], now=NOW)) == [1]


def test_no_report_is_usual_once_the_stream_is_sealed() -> None:
    stream = _stream()
    stream.seal({0: 5, 1: 5}, NOW)
    assert list(stream.note_times([Report("a", 20, {0: 5})], now=NOW)) == [0]


@pytest.mark.parametrize("tails", [None, {0: 5, 1: 0, 2: 9, 3: 9}])
def test_after_scaling_a_report_is_usual_where_its_writer_has_all_that_came_before(
    tails: Position | None,
) -> None:
    stream = _stream()
    stream.change_topology(_scaled(stream.topology))
    many = [
        Report("a", 20, {1: 0}),
        Report("a", 20, {2: 1}),
        Report("a", 20, {0: 5}),
        Report("a", 20, {2: 1}),
        Report("a", 20, {2: 2, 3: 0}),
    ]
    unusual = []
    for place in stream.note_times(many, now=NOW, tails=tails):
        unusual.append(place)
        if place == 2:
            stream.note_time("a", 20, {0: 5}, now=NOW, tails=tails)
    assert unusual == [0, 1, 2]
    assert stream.inspect(NOW).status("a").position == {0: 5, 2: 2}


def test_no_usual_report_is_ahead_of_what_was_appended() -> None:
    many = [Report("a", 20, {0: 5}), Report("a", 20, {0: 6}), Report("a", 20, {1: 1})]
    assert list(_stream().note_times(many, now=NOW, tails={0: 5, 1: 0})) == [1, 2]


def _stream() -> Aggregator:
    """One whose watermark is 10, which *behind* holds."""
    settings = StreamSettings(max_future_skew_ms=50, aggregation_timeout_ms=None)
    stream = Aggregator("scope/stream", settings, Topology.of_partitions(2))
    for writer in ("registered", "joining"):
        stream.register(writer, now=NOW)
    for writer in ("a", "left", "expired", "behind", "registered", "joining"):
        incarnation = 1 if writer in {"registered", "joining"} else None
        stream.note_time(writer, 10, {}, now=NOW, incarnation=incarnation)
    stream.leave("left", now=NOW)
    stream.expire("expired", now=NOW)
    for writer, incarnation in (("a", None), ("registered", 1), ("joining", 1)):
        stream.note_time(writer, 20, {0: 4}, now=NOW, incarnation=incarnation)
    assert [mark.lower for mark in stream.run_pass(NOW).marks] == [10]
    stream.register("joining", now=NOW)
    return stream


def _scaled(topology: Topology) -> Topology:
    added = [Segment(2, predecessors=(0, 1)), Segment(3, predecessors=(1,))]
    return topology.scaled({0: 5, 1: 0}, added)
