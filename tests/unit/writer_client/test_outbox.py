"""What a note covers: exactly what was written before it, wherever batches are cut."""

import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegauge.errors import InvalidTimeError
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import down_set
from tidegauge.topology import KeyRange, Segment, Topology
from writer_client import WriterClosedError
from writer_client._columns import to_events
from writer_client._events import EventBatch
from writer_client._hints import Hints
from writer_client._noter import Noter
from writer_client._outbox import Outbox, Wake

TWO = Topology.of_equal_ranges(2)
LOW, HIGH = "a", "b"
"""Keys of the lower and of the upper half."""


def _outbox(*, last_time: int | None = None, **options: Any) -> Outbox:
    noter = Noter("one", Hints("demo/rides"), last_time=last_time)
    outbox = Outbox(noter, **{"batch_bytes": 10_000, "limit_bytes": 10_000} | options)
    outbox.follow(TWO)
    return outbox


def _write(outbox: Outbox, key: str = LOW) -> Wake | None:
    return outbox.write(key, 1, b"value")


def test_a_batch_has_no_more_bytes_than_it_may_unless_one_event_has() -> None:
    outbox = _outbox()
    for size in (3_000, 12_000, 3_000, 3_000):
        outbox.write(LOW, 1, b"v" * size)
    outbox.route()
    counts = []
    while batch := outbox.take(0, max_events=10):
        counts.append(len(batch.events))
        outbox.acknowledge(batch, sum(counts))
    assert counts == [1, 1, 2]


def _batch(keys: list[str]) -> pa.RecordBatch:
    (batch,) = to_events(["value"] * len(keys), keys, [1] * len(keys)).to_batches()
    return batch


def _take(outbox: Outbox, segment: int = 0, events: int = 100) -> EventBatch:
    outbox.route()
    batch = outbox.take(segment, max_events=events)
    assert batch is not None
    return batch


def test_a_time_that_goes_back_is_refused_and_changes_nothing() -> None:
    outbox = _outbox(last_time=1_000)
    with pytest.raises(InvalidTimeError) as caught:
        outbox.note(999)
    assert (caught.value.time, caught.value.stored_time) == (999, 1_000)
    with pytest.raises(InvalidTimeError):
        outbox.note(END_OF_TIME)
    assert len(outbox.noter.notes) == 0


def test_events_below_the_noted_time_count_as_late_and_the_first_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outbox = _outbox(last_time=1_000)
    for time in (999, 1_000):
        outbox.write(LOW, time, b"")
    (events,) = to_events([""] * 3, [LOW] * 3, [998, 1_000, 999]).to_batches()
    outbox.write_many(events)
    assert outbox.noter.late_events == 3
    (line,) = caplog.messages
    assert "writer 'one' of demo/rides: event time 999 is below 1000" in line


def test_senders_are_woken_for_the_first_event_and_for_a_full_batch() -> None:
    outbox = _outbox(batch_bytes=3 * 70)
    wakes = [_write(outbox) for _ in range(4)]
    assert wakes == [Wake.LINGER, None, Wake.SEND, None]
    assert outbox.route() == [0]
    assert _write(outbox, HIGH) == Wake.LINGER
    assert outbox.route() == [0, 1]


def test_a_failure_is_raised_by_every_later_call() -> None:
    outbox = _outbox()
    outbox.fail(RuntimeError("the disk is gone"), stuck=True)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        _write(outbox)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        outbox.note(1)
    with pytest.raises(RuntimeError, match="the disk is gone"):
        outbox.noter.raise_failure()


def test_a_refused_note_does_not_hinder_the_events_before_it() -> None:
    outbox = _outbox()
    _write(outbox)
    outbox.note(10)
    goal = outbox.goal
    outbox.fail(RuntimeError("refused"), stuck=False)
    assert not outbox.is_settled(goal)
    outbox.acknowledge(_take(outbox), 1)
    assert outbox.is_settled(goal)


def test_nothing_written_after_a_goal_delays_it() -> None:
    outbox = _outbox()
    _write(outbox)
    outbox.note(10)
    goal = outbox.goal
    outbox.acknowledge(_take(outbox), 1)
    _write(outbox)
    outbox.note(20)
    assert not outbox.is_settled(goal)
    assert outbox.send_notes(10) == [(10, {0: 1})]
    outbox.noter.accept()
    assert outbox.is_settled(goal)


def test_a_closed_outbox_takes_nothing_more() -> None:
    outbox = _outbox(limit_bytes=60)
    _write(outbox)
    outbox.close()
    outbox.wait_for_room()
    with pytest.raises(WriterClosedError):
        _write(outbox)


def test_a_clock_never_falls_behind_what_was_noted() -> None:
    times = iter([5, 30])
    outbox = _outbox(clock=lambda: next(times))
    outbox.note(20)
    outbox.write(LOW, None, b"")
    outbox.write(LOW, 7, b"")
    outbox.write(LOW, None, b"")
    assert _take(outbox).events.column("event_time").to_pylist() == [20, 7, 30]


def test_a_clock_gives_a_time_to_those_of_many_events_that_have_none() -> None:
    outbox = _outbox(clock=lambda: 5)
    (events,) = to_events(["", ""], [LOW, LOW], [None, 7]).to_batches()
    outbox.write_many(events)
    assert _take(outbox).events.column("event_time").to_pylist() == [5, 7]


def test_a_note_covers_what_any_thread_wrote_before_it() -> None:
    outbox = _outbox(batch_bytes=1_000_000, limit_bytes=1_000_000)
    wrote, noted = threading.Barrier(5), threading.Barrier(5)

    def write() -> None:
        for _ in range(200):
            _write(outbox, LOW)
            _write(outbox, HIGH)
        wrote.wait()
        noted.wait()
        _write(outbox, LOW)

    threads = [threading.Thread(target=write) for _ in range(4)]
    for one in threads:
        one.start()
    wrote.wait()
    outbox.note(10)
    noted.wait()
    for one in threads:
        one.join()
    outbox.acknowledge(_take(outbox, 0, 10_000), 804)
    outbox.acknowledge(_take(outbox, 1, 10_000), 800)
    assert outbox.send_notes(10) == [(10, {0: 800, 1: 800})]


class ModelLog:
    """A log that scales, with other writers; ours is told apart by the order of writing."""

    def __init__(self) -> None:
        self.topology = TWO
        self.events: dict[int, list[tuple[int, str] | None]] = {0: [], 1: []}

    def append(self, batch: EventBatch) -> int | None:
        """Append, or refuse what is sealed."""
        if self.topology[batch.segment].sealed_length is not None:
            return None
        log = self.events[batch.segment]
        ordinals, keys = (batch.events.column(name).to_pylist() for name in ("ordinal", "key"))
        log += zip(ordinals, keys, strict=True)
        return len(log)

    def split_or_merge(self) -> None:
        """Merge all segments to one, or split the one there is."""
        sealed = {one: len(self.events[one]) for one in self.topology.unsealed}
        before, first = tuple(sealed), len(self.topology.segments)
        ranges = [(0.0, 0.5), (0.5, 1.0)] if len(sealed) == 1 else [(0.0, 1.0)]
        new = [Segment(first + at, KeyRange(*one), before) for at, one in enumerate(ranges)]
        self.topology = self.topology.scaled(sealed, new)
        self.events |= {one.number: [] for one in new}

    def below(self, position: dict[int, int]) -> list[int]:
        """List our events below a position."""
        counts = down_set(self.topology, position)
        return sorted(
            one[0]
            for segment, count in counts.items()
            for one in self.events[segment][:count]
            if one is not None
        )

    def by_key(self) -> Iterator[list[int]]:
        """List our events of each key in the order in which readers see them."""
        everything = [
            one for segment in self.topology.in_order for one in self.events[segment] if one
        ]
        for key in (LOW, HIGH):
            yield [ordinal for ordinal, one in everything if one == key]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from([LOW, HIGH])),
        st.tuples(st.just("write many"), st.sampled_from([LOW + HIGH, HIGH + HIGH + LOW])),
        st.tuples(st.just("note"), st.just("")),
        st.tuples(st.just("route"), st.just("")),
        st.tuples(st.just("take"), st.integers(0, 3)),
        st.tuples(st.just("take"), st.integers(0, 1)),
        st.tuples(st.just("answer"), st.integers(0, 3)),
        st.tuples(st.just("report"), st.just("")),
        st.tuples(st.just("others"), st.integers(0, 1)),
        st.tuples(st.just("scale"), st.just("")),
    ),
    min_size=30,
    max_size=80,
)


class Run:
    """A writer's outbox against the model log: what is sent is stored or refused later."""

    def __init__(self, batch_events: int) -> None:
        self.log = ModelLog()
        self.outbox = _outbox(batch_bytes=100_000, limit_bytes=100_000)
        self.batch_events = batch_events
        self.on_their_way: dict[int, EventBatch] = {}
        self.written = 0
        self.promised: list[int] = []
        self.reported: dict[int, int] = {}
        self.covered = 0

    def do(self, step: str, what: int | str) -> None:
        if step == "write":
            _write(self.outbox, str(what))
            self.written += 1
        elif step == "write many":
            self.outbox.write_many(_batch(list(str(what))))
            self.written += len(str(what))
        elif step == "route":
            self.outbox.route()
        elif step == "note":
            self.outbox.note(len(self.promised))
            self.promised.append(self.written)
        elif step == "others":
            growing = self.log.topology.unsealed
            self.log.events[growing[int(what) % len(growing)]].append(None)
        elif step == "scale":
            self.log.split_or_merge()
        elif step == "report":
            self.report()
        elif step == "take":
            segments = list(self.log.topology.segments)
            self.take(segments[-1 - int(what) % len(segments)])
        elif self.on_their_way:
            self.answer(sorted(self.on_their_way)[int(what) % len(self.on_their_way)])

    def take(self, segment: int) -> None:
        if segment in self.on_their_way:
            return
        batch = self.outbox.take(segment, max_events=self.batch_events)
        if batch is not None:
            self.on_their_way[segment] = batch

    def answer(self, segment: int) -> None:
        batch = self.on_their_way.pop(segment)
        next_offset = self.log.append(batch)
        if next_offset is None:
            self.outbox.reroute(batch, self.log.topology)
        else:
            self.outbox.acknowledge(batch, next_offset)

    def report(self) -> None:
        for time, position in self.outbox.send_notes(100):
            before = down_set(self.log.topology, self.reported)
            after = down_set(self.log.topology, position)
            assert all(after[one] >= before.get(one, 0) for one in position), "goes back"
            self.reported |= position
            self.check_cover(self.promised[time])
        self.outbox.noter.accept()

    def check_cover(self, promised: int) -> None:
        """What a position covers of sealed ancestors comes with it; else it is exact."""
        below = self.log.below(self.reported)
        assert below[:promised] == list(range(promised))
        if not self.log.topology.has_history:
            assert len(below) == promised

    def finish(self) -> None:
        while self.outbox.unstored:
            self.outbox.route()
            for segment in list(self.log.topology.segments):
                self.take(segment)
            for segment in list(self.on_their_way):
                self.answer(segment)
        self.report()


@pytest.mark.parametrize("scales", [False, True])
@given(steps=STEPS, batch_events=st.integers(1, 5))
def test_reports_cover_what_was_before_and_no_event_is_lost_nor_the_order_of_a_key(
    *, scales: bool, steps: list[tuple[str, int | str]], batch_events: int
) -> None:
    """Without scaling, a report covers exactly the events before its note."""
    run = Run(batch_events)
    for step, what in steps:
        if scales or step != "scale":
            run.do(step, what)
    run.finish()
    assert len(run.outbox.noter.notes) == 0
    ordered = list(run.log.by_key())
    assert sorted(one for ordinals in ordered for one in ordinals) == list(range(run.written))
    assert ordered == [sorted(ordinals) for ordinals in ordered]


def test_a_trickle_that_cannot_be_sent_stays_in_few_pieces_and_in_order() -> None:
    outbox = _outbox(batch_bytes=1_000_000, limit_bytes=1_000_000)
    for _ in range(1_000):
        _write(outbox)
        outbox.route()
    assert outbox._lanes[0].waiting.column("key").num_chunks <= 64
    ordinals = _take(outbox, events=10_000).events.column("ordinal")
    assert ordinals.to_pylist() == list(range(1_000))
