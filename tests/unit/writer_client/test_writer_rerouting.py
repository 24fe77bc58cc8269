"""A writer whose segments are sealed under it: a service in memory that scales when told to."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tidegauge.errors import SegmentSealedError, StreamSealedError
from tidegauge.names import StreamName
from tidegauge.scaling import continuation
from tidegauge.topology import KeyRange, Position, Segment, Topology
from tidegauge.wire.streams import SegmentInfo
from writer_client import AsyncWriter

LOW, HIGH = "a", "b"
"""Keys of the lower and of the upper half."""


class ScalingService:
    """Stands in for `WriterCalls`: what the service does, with one writer."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.events: dict[int, list[str]] = {one: [] for one in topology.segments}
        self.sequences: dict[int, int] = {}
        self.described = 0
        self.reports: list[tuple[int, Position]] = []
        self.stream = StreamName("tests", "one")
        self.name = "one"
        self.incarnation = 1
        self.watermark: int | None = None
        self.beat_ms: int | None = None
        self.transport = SimpleNamespace(aclose=self._nothing)
        self.after_append: Callable[[int], None] = lambda _: None
        self.before_append: Callable[[int], Awaitable[None]] = self._nothing

    async def _nothing(self, *_: object) -> None:
        return

    async def describe(self) -> Any:
        self.described += 1
        topology = SimpleNamespace(to_topology=lambda: self.topology)
        return SimpleNamespace(topology=topology, config=SimpleNamespace(log="embedded"))

    async def register(self, _: int | None) -> Any:
        return SimpleNamespace(position={})

    async def append(self, segment: int, body: bytes, sequence: int) -> Any:
        await self.before_append(segment)
        last = self.sequences.get(segment, 0)
        if self.topology[segment].sealed_length is not None:
            raise self.refusal(segment, last)
        assert sequence == last + 1
        self.sequences[segment] = sequence
        values = pa.ipc.open_stream(body).read_all().column("value").to_pylist()
        self.events[segment] += [value.decode() for value in values]
        next_offset = len(self.events[segment])
        self.after_append(segment)
        return SimpleNamespace(next_offset=next_offset)

    def refusal(self, segment: int, last: int) -> SegmentSealedError:
        after = [
            SegmentInfo.of(one).model_dump() for one in continuation(self.topology, segment)
        ]
        successors = list(self.topology.successors[segment])
        return SegmentSealedError(segment, successors, last, self.topology.revision, after)

    async def note_time(self, time: int, position: Position) -> None:
        self.reports.append((time, position))

    async def note_times(self, notes: list[tuple[int, Position]]) -> None:
        self.reports += notes

    def scale(self, seal: list[int], ranges: list[tuple[float, float]]) -> None:
        first = len(self.topology.segments)
        lengths = {one: len(self.events[one]) for one in seal}
        new = [
            Segment(first + at, KeyRange(*owned), tuple(seal))
            for at, owned in enumerate(ranges)
        ]
        self.topology = self.topology.scaled(lengths, new)
        self.events |= {one.number: [] for one in new}


async def _let_all_do_what_they_can() -> None:
    """Nothing here waits for the network, so a few turns of the loop are enough."""
    for _ in range(100):
        await asyncio.sleep(0)


def _run(service: ScalingService, work: Callable[[AsyncWriter], Awaitable[None]]) -> None:
    async def run() -> None:
        writer = AsyncWriter("http://127.0.0.1:1", "tests/one", "one", linger=timedelta(0))
        writer._core.member.calls = writer._core.sending._calls = service  # type: ignore[assignment]
        async with writer:
            await work(writer)

    asyncio.run(run())


def test_what_was_not_stored_goes_to_the_segments_after_a_split() -> None:
    service = ScalingService(Topology.of_equal_ranges(1))

    async def work(writer: AsyncWriter) -> None:
        await writer.write("1", key=LOW)
        await writer.flush()
        service.scale([0], [(0.0, 0.5), (0.5, 1.0)])
        await writer.write("2", key=LOW)
        await writer.write("3", key=HIGH)
        writer.note_time(10)
        await writer.write("4", key=LOW)

    _run(service, work)
    assert service.described == 1  # when it was opened: the refusal told the rest
    assert service.events == {0: ["1"], 1: ["2", "4"], 2: ["3"]}
    assert service.reports == [(10, {0: 1, 1: 1, 2: 1}), (10, {0: 1, 1: 2, 2: 1})]


def test_a_writer_asks_where_a_refusal_builds_on_what_it_does_not_know() -> None:
    service = ScalingService(Topology.of_equal_ranges(2))

    async def work(writer: AsyncWriter) -> None:
        service.scale([1], [(0.5, 0.75), (0.75, 1.0)])
        service.scale([0, 2], [(0.0, 0.75)])
        await writer.write("1", key=LOW)
        await writer.flush()
        await writer.write("2", key=HIGH)

    _run(service, work)
    assert service.described == 2
    assert service.events == {0: [], 1: [], 2: [], 3: [], 4: ["1", "2"]}


def test_a_batch_that_was_stored_before_the_seal_is_not_stored_again() -> None:
    """The answer was lost, and the repetition meets a service that only says `segment_sealed`."""
    service = ScalingService(Topology.of_equal_ranges(1))

    def seal_and_lose_the_answer(segment: int) -> None:
        if segment == 0:
            service.scale([0], [(0.0, 1.0)])
            raise service.refusal(0, 1)

    service.after_append = seal_and_lose_the_answer

    async def work(writer: AsyncWriter) -> None:
        await writer.write("1", key=LOW)
        writer.note_time(10)
        await writer.flush()
        await writer.write("2", key=LOW)

    _run(service, work)
    assert service.events == {0: ["1"], 1: ["2"]}
    assert service.reports == [(10, {0: 1}), (10, {0: 1, 1: 1})]


def test_a_merged_segment_waits_for_what_is_on_its_way_to_its_predecessors() -> None:
    service = ScalingService(Topology.of_equal_ranges(2))
    high_may_go = asyncio.Event()

    async def hold_high(segment: int) -> None:
        if segment == 1:
            await high_may_go.wait()

    service.before_append = hold_high

    async def work(writer: AsyncWriter) -> None:
        await writer.write("high 1", key=HIGH)
        await writer.write("low 1", key=LOW)
        await _let_all_do_what_they_can()
        service.scale([0, 1], [(0.0, 1.0)])
        await writer.write("low 2", key=LOW)
        await _let_all_do_what_they_can()
        await writer.write("high 2", key=HIGH)
        writer.note_time(10)
        await _let_all_do_what_they_can()
        assert service.events[2] == []
        high_may_go.set()

    _run(service, work)
    assert service.events == {0: ["low 1"], 1: [], 2: ["high 1", "low 2", "high 2"]}
    assert service.reports[0] == (10, {0: 1, 2: 3})


def test_a_report_does_not_go_back_behind_a_segment_it_has_passed() -> None:
    """ "low 1" is the older event, but lands in the merged segment behind "high 1"."""
    service = ScalingService(Topology.of_equal_ranges(2))
    service.events[1] = ["of others"] * 5
    low_may_go = asyncio.Event()

    async def hold_low(segment: int) -> None:
        if segment == 0:
            await low_may_go.wait()

    service.before_append = hold_low

    async def work(writer: AsyncWriter) -> None:
        await writer.write("low 1", key=LOW)
        writer.note_time(10)
        await writer.write("high 1", key=HIGH)
        writer.note_time(20)
        await _let_all_do_what_they_can()
        service.scale([0, 1], [(0.0, 1.0)])
        low_may_go.set()

    _run(service, work)
    assert service.events[2] == ["low 1"]
    assert service.reports == [(10, {2: 1}), (20, {}), (20, {1: 6, 2: 1})]


def test_a_stream_that_is_sealed_stops_the_writer() -> None:
    service = ScalingService(Topology.of_equal_ranges(1))

    async def work(writer: AsyncWriter) -> None:
        service.scale([0], [])
        await writer.write("1", key=LOW)

    with pytest.raises(StreamSealedError):
        _run(service, work)
