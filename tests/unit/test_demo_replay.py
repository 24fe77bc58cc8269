"""The clock of the demo, and its pace: so many batches, and no more."""

from bisect import bisect_right
from ctypes import c_int64
from sys import float_info

import pandas as pd
import pytest

from examples.flights.carriers import Pace, ReplayClock
from examples.flights.data import of_first_days, read_flights


def test_the_clock_runs_at_its_speed() -> None:
    shared = c_int64(500)
    clock = ReplayClock(shared, end_ms=9_000_000, speed=2_000, at_s=10)
    clock.turn(11, limit_ms=9_000_000)
    clock.turn(11.5, limit_ms=9_000_000)
    assert (clock.start_ms, clock.now_ms, shared.value) == (500, 3_000_500, 3_000_500)
    assert (clock.ran_s, clock.waited_s, clock.mean_speed) == (1.5, 0, 2_000)


def test_a_clock_that_waited_goes_on_at_its_speed_and_does_not_catch_up() -> None:
    clock = ReplayClock(c_int64(0), end_ms=9_000_000, speed=1_000, at_s=0)
    clock.turn(10, limit_ms=4_000_000)
    assert clock.now_ms == 4_000_000
    clock.turn(15, limit_ms=3_000_000)
    assert clock.now_ms == 4_000_000
    clock.turn(16, limit_ms=9_000_000)
    assert clock.now_ms == 5_000_000
    assert (clock.ran_s, clock.waited_s, clock.mean_speed) == (16, 11, 312.5)


def test_a_clock_at_its_end_stays_there_and_counts_no_more_time() -> None:
    clock = ReplayClock(c_int64(0), end_ms=4_000_000, speed=1_000, at_s=0)
    for at_s in (1, 4, 60):
        clock.turn(at_s, limit_ms=9_000_000)
    assert clock.now_ms == 4_000_000
    assert (clock.ran_s, clock.waited_s, clock.mean_speed) == (4, 0, 1_000)


@pytest.mark.parametrize("speed", [1e10, 1e20, 1e305, float_info.max])
def test_a_clock_of_any_speed_stops_at_its_limit(speed: float) -> None:
    clock = ReplayClock(c_int64(0), end_ms=4_000_000, speed=speed, at_s=0)
    clock.turn(10, limit_ms=3_000_000)
    assert clock.now_ms == 3_000_000
    clock.turn(20, limit_ms=9_000_000)
    assert clock.now_ms == 4_000_000
    assert (clock.ran_s, clock.mean_speed) == (20, 200)
    assert clock.waited_s == pytest.approx(20, rel=1e-3)


def test_the_pace_divides_what_is_unread_over_the_batches_that_are_left() -> None:
    pace = Pace([10, 20, 30, 40, 50, 60], batches=3)
    assert [pace.limit_ms(read, read // 2) for read in (0, 2, 4, 6)] == [29, 49, 60, 60]
    assert [pace.limit_ms(1, batches) for batches in range(5)] == [39, 49, 60, 60, 60]


def test_the_pace_lets_flights_land_that_land_at_one_time() -> None:
    assert Pace([10, 10, 10, 20], batches=4).limit_ms(0, 0) == 10


@pytest.fixture(scope="module")
def year() -> pd.DataFrame:
    return read_flights()[0]


@pytest.mark.parametrize(("days", "batch_s"), [(1, 0.4), (1, 10), (31, 10)])
def test_a_spark_of_any_speed_makes_about_as_many_batches_as_are_wanted(
    year: pd.DataFrame, days: int, batch_s: float
) -> None:
    flights = of_first_days(year, days)
    landed = list(flights["landed"])
    start_ms = c_int64(int(flights["departed"].min()))
    clock = ReplayClock(start_ms, end_ms=landed[-1], speed=35_000, at_s=0)
    pace = Pace(landed, batches=50)
    at_s, ends_s, read, reading, batches = 0.0, 0.0, 0, 0, 0
    while read < len(landed):
        at_s += 0.1
        clock.turn(at_s, limit_ms=pace.limit_ms(read, batches))
        if at_s < ends_s:
            continue
        batches += reading > read
        read, reading = reading, bisect_right(landed, clock.now_ms)
        ends_s = at_s + batch_s
    assert 40 <= batches <= 50
