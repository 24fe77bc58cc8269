"""What is true of readings at their limits, and what the writers that hand them in may promise."""

from examples.telemetry import (
    Reading,
    find_silences,
)
from tests.honest_feed import Step, steps_of


def _at(arrived: int, time: int, *, writer: str = "g", key: str = "d") -> Reading:
    return Reading(writer, key, time, arrived, 1)


def test_a_reading_at_exactly_the_longest_silence_is_in_time() -> None:
    readings = [_at(99, time) for time in (20, 0, 10, 31)]
    assert find_silences(readings, 10) == [
        ("d", 30, "offline"),
        ("d", 31, "online"),
        ("d", 41, "offline"),
    ]


def test_a_writer_promises_the_oldest_event_that_it_has_not_written() -> None:
    slow, quick = _at(25, 7), _at(12, 12, writer="h")
    assert steps_of([quick, slow], every_ms=10) == [
        Step(0, [], {"h": 0, "g": 0}),
        Step(10, [], {"h": 10, "g": 7}),
        Step(20, [quick], {"h": 20, "g": 7}),
        Step(30, [slow], {"h": 30, "g": 30}),
    ]
