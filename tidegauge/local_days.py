"""Days of a time zone: when they begin, and which of them a time is in.

A local day lasts from its first moment to that of the next day. So days follow one another without
a gap, also where clocks change: most last 23, 24 or 25 hours. A day that a zone left out begins when
the next day does, and no time is in it. Days are numbered by their dates, 1970-01-01 is day 0.
"""

from bisect import bisect_left, bisect_right
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

DAY_MS = 86_400_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND = timedelta(seconds=1)
# A day apart from the ends of `datetime`, where no zone leads out of it.
_FIRST_DAY = (date(1, 1, 3) - _EPOCH.date()).days
_LAST_DAY = (date(9999, 12, 29) - _EPOCH.date()).days
# The calendar and the rules of a zone repeat after 400 years.
_CYCLE_DAYS = 146_097


def find_zone(name: str) -> ZoneInfo:
    """Return a time zone of the machine's database, or of the package tzdata.

    Raises
    ------
    ValueError
        If there is none of this name.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError, TypeError, ValueError):
        msg = (
            f"{name!r} is not a time zone here; name one such as 'Europe/Paris', and if that is "
            "unknown too, pip install tzdata"
        )
        raise ValueError(msg) from None


@lru_cache(maxsize=10_000)
def first_moment(zone: ZoneInfo, day: int) -> int:
    """Return when a local day begins, in ms.

    Where clocks go back over midnight that is the first midnight.
    """
    beyond = max(day - _LAST_DAY, 0) or min(day - _FIRST_DAY, 0)
    cycles = -(-beyond // _CYCLE_DAYS) if beyond > 0 else beyond // _CYCLE_DAYS
    shift = timedelta(days=day - cycles * _CYCLE_DAYS)
    midnight = datetime.combine(_EPOCH.date() + shift, time(), zone)
    first, last = ((midnight.replace(fold=fold) - _EPOCH) // _SECOND for fold in (0, 1))
    if last < first:
        # Clocks skip midnight, and the day begins where they go on.
        wall = midnight.replace(tzinfo=None)
        first = last + bisect_left(range(last, first), wall, key=lambda at: _wall(zone, at))
    return (first + cycles * _CYCLE_DAYS * 86_400) * 1_000


def day_of(zone: ZoneInfo, time_ms: int) -> int:
    """Return the local day that a time is in."""
    # No zone is a day or more off, so it is the day in UTC or one beside it.
    around = range(time_ms // DAY_MS - 1, time_ms // DAY_MS + 2)
    return around[bisect_right(around, time_ms, key=lambda day: first_moment(zone, day)) - 1]


def _wall(zone: ZoneInfo, at: int) -> datetime:
    return (_EPOCH + timedelta(seconds=at)).astimezone(zone).replace(tzinfo=None)
