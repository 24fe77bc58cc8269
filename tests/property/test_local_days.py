"""Local days against the clocks of all zones, and against days that are written in calendars."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tidegauge.local_days import DAY_MS, day_of, find_zone, first_moment

HOUR_MS = 3_600_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ZONES = st.sampled_from(sorted(available_timezones() - {"localtime", "Factory"})).map(ZoneInfo)
# Since 1970 no zone has had a date twice.
SINCE_1970 = st.integers(0, 40_000)
EVER = st.integers(-719_162, 2_932_896)


def number(year: int, month: int, day: int) -> int:
    return (date(year, month, day) - EPOCH.date()).days


@given(ZONES, EVER, st.integers(0, 30 * HOUR_MS))
@example(ZoneInfo("Pacific/Apia"), number(2011, 12, 30), 0)
@example(ZoneInfo("America/St_Johns"), number(2006, 10, 29), 70_000)
@example(ZoneInfo("Antarctica/Vostok"), number(1994, 1, 31), 26 * HOUR_MS)
@example(ZoneInfo("Europe/Paris"), 2_932_896, DAY_MS - 1)
@example(ZoneInfo("America/Juneau"), -37_333, 30 * HOUR_MS)
def test_each_time_is_in_one_day_and_each_day_begins_in_itself(
    zone: ZoneInfo, day: int, after: int
) -> None:
    time = first_moment(zone, day) + after
    found = day_of(zone, time)
    assert first_moment(zone, found) <= time < first_moment(zone, found + 1)
    assert day_of(zone, first_moment(zone, found)) == found
    assert day_of(zone, first_moment(zone, found + 1) - 1) == found


@given(ZONES, SINCE_1970, st.integers(0, 60 * 24 - 1))
def test_the_day_is_that_of_the_clock_but_where_the_clock_goes_back_over_midnight(
    zone: ZoneInfo, utc_day: int, minute: int
) -> None:
    time = utc_day * DAY_MS + minute * 60_000
    # A date that was shown already is the day's: clocks never went back by more than 7 hours.
    before = range(time - 8 * HOUR_MS, time + 1, 60_000)
    shown = max((EPOCH + timedelta(milliseconds=at)).astimezone(zone).date() for at in before)
    assert day_of(zone, time) == (shown - EPOCH.date()).days


@given(ZONES, SINCE_1970)
@example(ZoneInfo("Antarctica/Casey"), number(2018, 3, 11))  # 27 hours
@example(ZoneInfo("Antarctica/Troll"), number(2024, 3, 31))  # 22 hours
def test_a_day_lasts_21_to_27_hours_or_does_not_exist(zone: ZoneInfo, day: int) -> None:
    # The clocks of an Antarctic station were moved by 7 hours in 1994.
    assume(zone.key != "Antarctica/Vostok")
    length = first_moment(zone, day + 1) - first_moment(zone, day)
    assert 21 * HOUR_MS <= length <= 27 * HOUR_MS or length == 0


@pytest.mark.parametrize(
    ("zone", "day", "begins", "hours"),
    [
        ("Europe/Paris", date(2024, 3, 31), "2024-03-30T23:00Z", 23),
        ("Europe/Paris", date(2024, 10, 27), "2024-10-26T22:00Z", 25),
        ("America/Sao_Paulo", date(2018, 11, 4), "2018-11-04T03:00Z", 23),  # begins at 01:00
        ("America/St_Johns", date(2006, 10, 29), "2006-10-29T02:30Z", 25),  # 00:00 comes twice
        ("Pacific/Apia", date(2011, 12, 29), "2011-12-29T10:00Z", 24),
        ("Pacific/Apia", date(2011, 12, 30), "2011-12-30T10:00Z", 0),
        ("Pacific/Apia", date(2011, 12, 31), "2011-12-30T10:00Z", 24),
        ("Asia/Kathmandu", date(1969, 7, 20), "1969-07-19T18:30Z", 24),
        ("America/Toronto", date(1919, 3, 31), "1919-03-31T04:30Z", 23.5),  # begins at 00:30
        ("UTC", date(1, 1, 1), "0001-01-01T00:00Z", 24),
    ],
)
def test_a_day_begins_where_the_calendar_says(
    zone: str, day: date, begins: str, hours: float
) -> None:
    here = find_zone(zone)
    at = (day - EPOCH.date()).days
    first = first_moment(here, at)
    assert EPOCH + timedelta(milliseconds=first) == datetime.fromisoformat(begins)
    assert first_moment(here, at + 1) - first == hours * HOUR_MS


@pytest.mark.parametrize("name", ["Europe/Lutetia", "Europe", "../UTC", "", "+02:00"])
def test_a_zone_that_is_not_known_is_refused_with_the_cure(name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a time zone here; name one such as 'Europe"):
        find_zone(name)
