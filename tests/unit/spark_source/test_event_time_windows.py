"""What may be a window and an aggregate."""

from datetime import timedelta
from typing import Any

import pytest

from spark_source.errors import InvalidOptionError
from spark_source.processing import (
    LocalDayWindows,
    SessionWindows,
    SlidingWindows,
    WindowSettings,
    count,
    mean,
    session,
    sliding,
    tumbling,
)


def settings(**changes: Any) -> WindowSettings:
    given: dict[str, Any] = {"assigner": SlidingWindows(10, 10), "aggregates": {"n": count()}}
    return WindowSettings(**(given | changes))


def test_durations_are_written_as_for_spark_or_as_timedeltas() -> None:
    assert tumbling("1 hour") == SlidingWindows(3_600_000, 3_600_000)
    assert tumbling("1 hour", timedelta(minutes=-5)).offset_ms == -300_000
    assert sliding(timedelta(minutes=1), "10 s", "0 s") == SlidingWindows(60_000, 10_000)
    assert session("30 minutes") == SessionWindows(1_800_000)


def test_windows_of_a_time_zone_are_whole_days() -> None:
    assert tumbling("1 day", zone="Europe/Paris") == LocalDayWindows(1, "Europe/Paris")
    weeks = tumbling(timedelta(days=7), "4 days", zone="Asia/Tokyo")
    assert weeks == LocalDayWindows(7, "Asia/Tokyo", 4)
    # Monday 2024-03-25, the week in which clocks change
    assert tumbling("7 days", "4 days", zone="Europe/Paris").window_of(1_711_600_000_000) == (
        1_711_321_200_000,
        1_711_922_400_000,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"size": "12 hours", "zone": "Europe/Paris"},
            "'size': '12 hours': with zone= windows",
        ),
        (
            {"size": "1 day", "offset": "6 h", "zone": "Europe/Paris"},
            "'offset': '6 h': with zone=",
        ),
        ({"size": "0 days", "zone": "Europe/Paris"}, "'size': 0 days; it has to be at least 1"),
        ({"size": "1 day", "zone": "Paris"}, "'zone': 'Paris' is not a time zone here; name"),
    ],
)
def test_what_is_no_whole_day_and_no_zone_is_refused(options: Any, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        tumbling(**options)


@pytest.mark.parametrize("duration", ["soon", "-1 hour", timedelta(microseconds=1), 10])
def test_what_is_no_duration_is_refused(duration: Any) -> None:
    with pytest.raises(InvalidOptionError, match=r"option 'size': .* is no"):
        tumbling(duration)


@pytest.mark.parametrize(("size", "slide"), [(10, 0), (10, 11), (0, 0), (10, -5), (-10, -10)])
def test_rows_may_not_fall_between_windows(size: int, slide: int) -> None:
    with pytest.raises(InvalidOptionError, match="'slide'"):
        SlidingWindows(size, slide)


def test_a_session_needs_a_gap() -> None:
    with pytest.raises(InvalidOptionError, match="'gap'"):
        SessionWindows(0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lateness_ms": -1}, "-1 ms is below 0"),
        ({"accumulation": "some"}, "'some' is not one of accumulating, discarding,"),
        ({"trigger": "never"}, "'never' is not one of on_time, early"),
        ({"aggregates": {"x": mean("y")}}, "'x' is of column 'y'; there are: value"),
    ],
)
def test_settings_that_mean_nothing_are_refused(changes: Any, message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        settings(**changes)
