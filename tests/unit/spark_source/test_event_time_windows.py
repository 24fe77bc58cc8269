"""What may be a window and an aggregate."""

from datetime import timedelta

from spark_source.processing import (
    LocalDayWindows,
    SessionWindows,
    SlidingWindows,
    session,
    sliding,
    tumbling,
)


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
