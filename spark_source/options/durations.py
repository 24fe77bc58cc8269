"""Lengths of time, as users write them for Spark."""

import re
from datetime import timedelta

from spark_source.errors import InvalidOptionError

_UNITS_MS = (
    {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
    | {"millisecond": 1, "second": 1_000, "min": 60_000, "minute": 60_000}
    | {"hour": 3_600_000, "day": 86_400_000}
)
_DURATION = re.compile(r"\s*(\d+)\s*([a-z]+)\s*\Z", re.IGNORECASE)
_MILLISECOND = timedelta(milliseconds=1)


def duration_ms(value: str | timedelta) -> int:
    """Read a duration such as ``"10 minutes"`` or a ``timedelta`` of whole milliseconds.

    Raises
    ------
    ValueError
        If it is neither.
    """
    if isinstance(value, timedelta):
        if value % _MILLISECOND:
            msg = f"{value!r} is not a whole number of milliseconds, the unit of event time"
            raise ValueError(msg)
        return value // _MILLISECOND
    match = _DURATION.match(value) if isinstance(value, str) else None
    unit = "" if match is None else match[2].lower()
    scale = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.rstrip("s"))
    if match is None or scale is None:
        msg = f"{value!r} is not a duration such as '10 minutes'"
        raise ValueError(msg)
    return int(match[1]) * scale


def option_ms(option: str, value: str | timedelta) -> int:
    """Read the duration that an option has.

    Raises
    ------
    InvalidOptionError
        If it is none.
    """
    try:
        return duration_ms(value)
    except ValueError as error:
        raise InvalidOptionError(option, str(error)) from None
