"""Watermark strategies, with the clocks handed in: what each of them notes."""

from collections.abc import Iterable
from copy import copy
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from tidegauge.event_time import END_OF_TIME
from writer_client._clocked import ClockedStrategy, RunningClock
from writer_client._hints import Hints
from writer_client._noter import Noter
from writer_client.strategies import (
    BoundedOutOfOrderness,
    LatenessQuantile,
    MonotonousTimestamps,
    ObservedEvent,
    Outstanding,
    PerPartition,
    Punctuated,
    Strategy,
    WithIdleness,
)

HOUR_MS = 3_600_000


def _ms(number: float) -> timedelta:
    return timedelta(milliseconds=number)


class Bench:
    """A strategy at work, with clocks that are set by hand, in ms."""

    def __init__(self, strategy: Strategy, wall_ms: int = 1_000_000) -> None:
        self.wall_ms = wall_ms
        self.clock_ms = 0
        self.clock = RunningClock(lambda: self.clock_ms * 1_000_000)
        self.noting = ClockedStrategy(
            strategy, wall_ms=lambda: self.wall_ms, running=self.clock
        )
        self.noter = Noter("one", Hints("demo/rides"), self.noting)
        self.noted: list[int] = []

    def sees(self, *times: int | None, source: object = None, value: bytes = b"") -> bool:
        """Write events; tell whether the last of them is to be noted at once."""
        at_once = [self.noter.observe(ObservedEvent(one, "k", value, source)) for one in times]
        return at_once[-1]

    def notes(self) -> list[int]:
        """Note what the strategy says, as a writer does now and then, and tell all that was noted."""
        time = self.noter.strategy_time()
        if time is not None:
            self.noter.notes.add(time)
            self.noted.append(time)
        return self.noted

    def passes(self, ms: int) -> None:
        """Let time pass on all clocks."""
        self.wall_ms += ms
        self.clock_ms += ms


class Told(NamedTuple):
    """Times of events, after each group of which it is asked; what it notes, and what it counts."""

    strategy: Strategy
    times: list[list[int | None]]
    noted: list[int]
    late: int = 0
    future: int = 0


TEN = BoundedOutOfOrderness(_ms(10))
TOLD = {
    "the maximum less the delay": Told(
        TEN, [[], [1_337], [12_345, 12_300, 12_340, 12_280]], [1_327, 12_335]
    ),
    "only what is below the last note is late": Told(
        TEN, [[100], [90, None, 89]], [90], late=1
    ),
    "a delay is rounded up": Told(BoundedOutOfOrderness(_ms(1.5)), [[12]], [10]),
    "the maximum": Told(MonotonousTimestamps(), [[12_345], [12_340]], [12_345], late=1),
    "no time moves no maximum": Told(MonotonousTimestamps(), [[None]], []),
    "logical time has no future but the end of time": Told(
        MonotonousTimestamps(), [[END_OF_TIME - 1, END_OF_TIME]], [END_OF_TIME - 1], future=1
    ),
}


@pytest.mark.parametrize("told", TOLD.values(), ids=TOLD)
def test_what_a_strategy_notes_of_the_times_of_events(told: Told) -> None:
    bench = Bench(copy(told.strategy))
    for times in told.times:
        for time in times:
            bench.sees(time)
        bench.notes()
    found = bench.noted, bench.noter.late_events, bench.noting.future_events
    assert found == (told.noted, told.late, told.future)


def test_a_time_far_in_the_future_does_not_drag_the_maximum_and_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(BoundedOutOfOrderness(_ms(10)), wall_ms=5_000)
    bench.noting.max_future_skew_ms = HOUR_MS
    bench.sees(4_000, 5_000 + HOUR_MS + 1, 5_000 + HOUR_MS + 2)
    assert bench.notes() == [3_990]
    assert bench.noting.future_events == 2
    bench.sees(5_000 + HOUR_MS)
    assert bench.notes() == [3_990, 5_000 + HOUR_MS - 10]
    (line,) = caplog.messages
    assert "writer 'one' of demo/rides: event time 3605001 is above 3605000" in line


def test_a_punctuated_strategy_notes_what_the_events_say_if_it_is_above_the_last() -> None:
    bench = Bench(Punctuated(lambda event: event.event_time if event.value == b"end" else None))
    assert not bench.sees(7_000)
    assert bench.notes() == []
    assert bench.sees(7_200, value=b"end")
    assert bench.notes() == [7_200]
    assert not bench.sees(7_100, value=b"end")
    assert not bench.sees(7_200, value=b"end")
    assert not bench.sees(8_000)
    assert bench.notes() == [7_200]


def test_an_extractor_may_tell_a_datetime_and_is_not_believed_far_in_the_future() -> None:
    said: dict[bytes, int | datetime] = {
        b"now": datetime.fromtimestamp(5, UTC),
        b"microseconds": 5_000_000_000,
    }
    bench = Bench(Punctuated(lambda event: said.get(event.value)), wall_ms=5_000)
    bench.noting.max_future_skew_ms = HOUR_MS
    assert bench.sees(1, value=b"now")
    assert not bench.sees(1, value=b"microseconds")
    assert bench.notes() == [5_000]
    assert bench.noting.future_events == 1


def _per_partition(**options: Iterable[int]) -> tuple[Bench, PerPartition]:
    strategy = PerPartition(lambda: BoundedOutOfOrderness(_ms(10)), **options)
    return Bench(strategy), strategy


def test_a_partition_that_is_registered_and_silent_holds() -> None:
    bench, strategy = _per_partition(partitions=[0])
    strategy.register(1)
    bench.sees(1_000, source=0)
    assert bench.notes() == []
    bench.sees(500, source=1)
    assert bench.notes() == [490]


def test_a_partition_that_is_marked_idle_does_not_hold_until_its_next_event() -> None:
    bench, strategy = _per_partition(partitions=[0, 1])
    bench.sees(1_000, source=0)
    strategy.mark_idle(1)
    assert bench.notes() == [990]
    bench.sees(1_005, source=1)
    bench.sees(2_000, source=0)
    assert bench.notes() == [990, 995]


def test_a_partition_that_is_removed_is_not_waited_for() -> None:
    bench, strategy = _per_partition(partitions=[0, 1])
    bench.sees(1_000, source=0)
    strategy.remove(1)
    assert bench.notes() == [990]


def test_once_all_partitions_are_idle_the_maximum_is_noted_once() -> None:
    bench, strategy = _per_partition()
    bench.sees(1_000, source=0)
    bench.sees(500, source=1)
    assert bench.notes() == [490]
    strategy.mark_idle(0)
    assert not bench.noting.is_idle
    strategy.mark_idle(1)
    assert bench.noting.is_idle
    assert bench.notes() == [490, 990]
    assert bench.notes() == [490, 990]


def test_a_marker_of_one_partition_is_noted_at_once_as_far_as_the_others_are() -> None:
    bench = Bench(PerPartition(lambda: Punctuated(lambda event: event.event_time)))
    assert bench.sees(300, source=0)
    assert bench.notes() == [300]
    assert bench.sees(200, source=1)
    assert bench.notes() == [300]
    assert bench.sees(400, source=1)
    bench.sees(500, source=0)
    assert bench.notes() == [300, 400]


def test_idleness_begins_a_while_after_the_last_event_and_any_event_ends_it() -> None:
    bench = Bench(WithIdleness(MonotonousTimestamps(), _ms(100)))
    bench.sees(1_000)
    bench.passes(99)
    assert not bench.noting.is_idle
    bench.passes(1)
    assert bench.noting.is_idle
    bench.sees(None)
    assert not bench.noting.is_idle
    bench.passes(99)
    assert not bench.noting.is_idle


def test_an_event_of_the_far_future_ends_idleness_too() -> None:
    bench = Bench(WithIdleness(MonotonousTimestamps(), _ms(100)), wall_ms=5_000)
    bench.noting.max_future_skew_ms = HOUR_MS
    bench.sees(1_000)
    bench.passes(100)
    bench.sees(9_000_000)
    assert not bench.noting.is_idle
    assert bench.notes() == [1_000]
    assert bench.noting.future_events == 1


def test_the_clock_of_idleness_stands_under_back_pressure() -> None:
    bench = Bench(WithIdleness(MonotonousTimestamps(), _ms(100)))
    bench.sees(1_000)
    bench.passes(60)
    with bench.clock.stopped():
        with bench.clock.stopped():
            bench.passes(500)
        bench.passes(500)
        assert not bench.noting.is_idle
    bench.passes(39)
    assert not bench.noting.is_idle
    bench.passes(1)
    assert bench.noting.is_idle


def test_a_partition_that_never_had_an_event_is_idle_after_a_while_too() -> None:
    strategy = PerPartition(lambda: WithIdleness(MonotonousTimestamps(), _ms(100)), [0, 1])
    bench = Bench(strategy)
    bench.sees(1_000, source=0)
    assert bench.notes() == []
    bench.passes(60)
    bench.sees(1_060, source=0)
    bench.passes(40)
    assert bench.notes() == [1_060]


def test_time_stands_with_events_of_one_instant_unless_told_to_advance() -> None:
    still = Bench(BoundedOutOfOrderness(_ms(10)), wall_ms=5_000)
    moving = Bench(BoundedOutOfOrderness(_ms(10), advance_on_idle=True), wall_ms=5_000)
    for bench in (still, moving):
        bench.sees(4_000)
        bench.notes()
        bench.passes(300)
        bench.sees(4_000, 4_000)
        bench.notes()
    assert still.noted == [3_990]
    assert moving.noted == [3_990, 4_290]


def test_time_does_not_advance_under_back_pressure() -> None:
    bench = Bench(MonotonousTimestamps(advance_on_idle=True), wall_ms=5_000)
    bench.sees(4_000)
    with bench.clock.stopped():
        bench.passes(300)
    assert bench.notes() == [4_000]


def test_what_is_outstanding_holds_at_the_oldest_and_otherwise_the_clock_counts() -> None:
    orders = Outstanding(lag=timedelta(0))
    bench = Bench(orders, wall_ms=5_000)
    assert bench.notes() == [5_000]
    orders.begin("a", 5_200)
    orders.begin("b", datetime.fromtimestamp(5.1, UTC))
    bench.passes(1_000)
    assert bench.notes() == [5_000, 5_100]
    orders.done("b")
    assert bench.notes() == [5_000, 5_100, 5_200]
    orders.done("a")
    assert bench.notes() == [5_000, 5_100, 5_200, 6_000]


def test_an_outstanding_item_may_be_older_than_the_clock_by_the_lag() -> None:
    assert Bench(Outstanding(), wall_ms=5_000).notes() == [4_000]
    assert Bench(Outstanding(lag=_ms(50)), wall_ms=5_000).notes() == [4_950]


def test_an_item_begins_and_is_done_once() -> None:
    orders = Outstanding()
    orders.begin("a", 1)
    with pytest.raises(ValueError, match="item 'a' has begun before"):
        orders.begin("a", 2)
    orders.done("a")
    with pytest.raises(KeyError):
        orders.done("a")


def test_a_quantile_is_learned_from_this_writers_own_lateness() -> None:
    bench = Bench(LatenessQuantile(0.9))
    bench.sees(*range(1_000, 1_009))
    assert bench.notes() == []
    bench.sees(1_008 - 64)
    assert bench.notes() == [1_008]
    bench.sees(1_008 - 64)
    assert bench.notes() == [1_008]
    bench.sees(2_000)
    assert bench.notes() == [1_008, 1_936]
    assert bench.noter.late_events == 1


def test_a_learned_delay_is_rounded_up_by_at_most_a_tenth() -> None:
    bench = Bench(LatenessQuantile(0.5))
    bench.sees(100_000, 90_000, 90_000, 90_000)
    (noted,) = bench.notes()
    assert 100_000 - 11_000 <= noted <= 90_000
