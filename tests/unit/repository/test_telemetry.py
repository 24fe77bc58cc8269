"""Generated readings, what is true of them, and the writers that hand them in."""

from itertools import pairwise

from examples.telemetry import (
    HOUR_MS,
    MINUTE_MS,
    Reading,
    count_by_window,
    find_silences,
    generate,
)
from tests.honest_feed import Step, steps_of

_READINGS = generate(devices=8, hours=24, every_ms=10 * MINUTE_MS)


def _at(arrived: int, time: int, *, writer: str = "g", key: str = "d") -> Reading:
    return Reading(writer, key, time, arrived, 1)


def test_the_same_seed_gives_the_same_readings() -> None:
    assert generate(devices=8, hours=24, every_ms=10 * MINUTE_MS) == _READINGS
    assert generate(devices=8, hours=24, every_ms=10 * MINUTE_MS, seed=2) != _READINGS
    assert len(_READINGS) == 1_085


def test_readings_come_in_disorder_with_gaps_and_restarts() -> None:
    arrived = [one.arrived for one in _READINGS]
    assert arrived == sorted(arrived)
    times = [one.event_time for one in _READINGS]
    assert sum(after < before for before, after in pairwise(times)) == 112
    held_back = [one for one in _READINGS if one.arrived - one.event_time > HOUR_MS]
    assert len(held_back) == 9
    assert sum(one.value == 1 for one in _READINGS) == 23  # 15 restarts
    assert len(find_silences(_READINGS, 30 * MINUTE_MS)) == 28


def test_windows_are_half_open_and_counted_by_key() -> None:
    readings = [
        Reading("g", "a", 0, 0, 3),
        Reading("g", "a", 9, 9, 4),
        Reading("g", "a", 10, 10, 5),
        Reading("g", "b", 9, 9, 6),
    ]
    found = count_by_window(readings, size_ms=10)
    assert found == {("a", 0): (2, 7), ("a", 10): (1, 5), ("b", 0): (1, 6)}


def test_a_reading_at_exactly_the_longest_silence_is_in_time() -> None:
    readings = [_at(99, time) for time in (20, 0, 10, 31)]
    assert find_silences(readings, 10) == [
        ("d", 30, "offline"),
        ("d", 31, "online"),
        ("d", 41, "offline"),
    ]


def test_a_key_with_one_reading_is_silent_after_it() -> None:
    assert find_silences([_at(0, 0)], 10) == [("d", 10, "offline")]


def test_a_writer_promises_the_oldest_event_that_it_has_not_written() -> None:
    slow, quick = _at(25, 7), _at(12, 12, writer="h")
    assert steps_of([quick, slow], every_ms=10) == [
        Step(0, [], {"h": 0, "g": 0}),
        Step(10, [], {"h": 10, "g": 7}),
        Step(20, [quick], {"h": 20, "g": 7}),
        Step(30, [slow], {"h": 30, "g": 30}),
    ]
