import re
from datetime import UTC, datetime

import pytest

from tidegauge.event_time import (
    END_OF_TIME,
    check_unit,
    describe_unheld,
    is_held,
    parse_event_time,
    to_event_time,
)


@pytest.mark.parametrize(
    ("given", "down", "up"),
    [
        ("9223372036854775807", END_OF_TIME, END_OF_TIME),
        ("2024-01-01t01:00:00.0019+01:00", 1_704_067_200_001, 1_704_067_200_002),
        ("2024-01-01T00:00:00.5Z", 1_704_067_200_500, 1_704_067_200_500),
        ("2024-01-01T00:00:00.001000000Z", 1_704_067_200_001, 1_704_067_200_001),
        ("2024-01-01T00:00:00.000000001Z", 1_704_067_200_000, 1_704_067_200_001),
        ("1969-12-31T23:59:59.9985Z", -2, -1),
        ("-5", -5, -5),
        (5, 5, 5),
    ],
)
def test_what_is_waited_for_is_rounded_up_and_the_rest_down(
    given: object, down: int, up: int
) -> None:
    assert (parse_event_time(given), parse_event_time(given, up=True)) == (down, up)


@pytest.mark.parametrize(
    "given",
    [1.0, True, None, "1e3", "1.5", "", " 1", "2024-01-01", "2024-01-01T00:00:00", 2**63, [1]],
)
def test_everything_else_is_refused_naming_the_value(given: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_event_time(given)


def test_floats_and_naive_datetimes_are_refused() -> None:
    with pytest.raises(TypeError, match="integer milliseconds"):
        to_event_time(1.5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no time zone"):
        to_event_time(datetime(2024, 1, 1))  # noqa: DTZ001


def test_readers_hold_the_years_1_to_9999() -> None:
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    assert is_held(to_event_time(first))
    assert is_held(to_event_time(last))
    assert not is_held(to_event_time(first) - 1)
    assert not is_held(to_event_time(last) + 1)


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (
            1_704_067_200_000_999,
            "are these microseconds? Times are milliseconds, such as 1704067200000",
        ),
        (
            1_704_067_200_000_999_999,
            "are these nanoseconds? Times are milliseconds, such as 1704067200000",
        ),
        (-(10**14), "which lies beyond the years 1 to 9999; times are milliseconds since 1970"),
        (END_OF_TIME, "is the end of time; seal the stream to end it"),
    ],
)
def test_a_time_that_no_reader_can_hold_is_explained_by_its_unit(time: int, said: str) -> None:
    assert describe_unheld(time).endswith(said)


@pytest.mark.parametrize(
    ("value", "said"),
    [(1_704_110_400, "are these seconds?"), (1_704_110_400_000_000, "are these microseconds?")],
)
def test_a_time_in_another_unit_is_refused_where_it_is_asked_for(value: int, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        check_unit(value)
