"""Event time: signed 64-bit milliseconds, by convention since the Unix epoch.

What a time means belongs to the application, so nothing here asks a clock for one.
"""

import re
from datetime import UTC, datetime, timedelta

from tidegauge.json_text import show_json

END_OF_TIME = 2**63 - 1
"""The watermark of a sealed stream: nothing will follow."""

FIRST_TIME = -(2**63)
"""The least event time there is."""

BEYOND_SECONDS = 10**11
"""A date is above this in milliseconds, and below it in seconds."""

_SECONDS_OF_2100 = 4_102_444_800
_YEAR_1_MS, _YEAR_10000_MS = -62_135_596_800_000, 253_402_300_800_000
"""Between which ISO 8601, datetimes and Spark's timestamps lie."""
_SPAN = re.compile(r"([0-9]{1,9}(?=[a-z])|[0-9]{1,18})(ms|s|m|h|d|)\Z", re.ASCII)
_UNITS_MS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_DECIMAL = re.compile(r"-?[0-9]{1,19}\Z", re.ASCII)
_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,3})(\d*))?([Zz]|[+-]\d\d:\d\d)\Z",
    re.ASCII,
)


def to_event_time(value: int | datetime, *, up: bool = False) -> int:
    """Turn what a Python caller passes for a time into milliseconds.

    Parameters
    ----------
    value
        Milliseconds as an integer, or an aware datetime, whose microseconds are floored.
    up
        Round up instead. It is for what is waited for: an event of 23:59:59.9995 counts as one of
        .999, and may come on time while the watermark is .999.

    Raises
    ------
    TypeError
        If the value is neither (floats cannot hold 64 bits and are refused).
    ValueError
        If a datetime has no zone, or the value does not fit into 64 bits.

    Examples
    --------
    >>> to_event_time(datetime(2024, 1, 1, 0, 0, 0, 1999, tzinfo=UTC))
    1704067200001
    """
    if type(value) is int:  # nearly every one, for each event written
        return _within_64_bits(value)
    if isinstance(value, datetime):
        if value.tzinfo is None:
            msg = f"{value!r} has no time zone; give it one, for example tzinfo=datetime.UTC"
            raise ValueError(msg)
        if up:
            return -((_EPOCH - value) // _MILLISECOND)
        return (value - _EPOCH) // _MILLISECOND
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"{value!r} is not an event time; pass integer milliseconds or an aware datetime"
        raise TypeError(msg)
    return _within_64_bits(value)


def parse_event_time(value: object, *, up: bool = False) -> int:
    """Read a JSON integer, a decimal string or an RFC 3339 string with a zone, as the API takes it.

    What is finer than a millisecond is rounded as in `to_event_time`.
    ``ValueError`` for all else, fractions and exponents too, and beyond 64 bits.
    """
    if type(value) is int:
        return _within_64_bits(value)
    if isinstance(value, str):
        if _DECIMAL.match(value):
            return _within_64_bits(int(value))
        if match := _RFC3339.match(value):
            # Python would cut off what is finer than a microsecond.
            seconds, millis, finer, zone = match.groups(default="")
            moment = to_event_time(datetime.fromisoformat(f"{seconds}{zone}".upper()))
            return moment + int(millis.ljust(3, "0")) + (up and finer.strip("0") != "")
    msg = (
        f"{show_json(value)} is not an event time; send integer milliseconds (a JSON integer or a decimal "
        "string) or an RFC 3339 time with a zone such as 2024-01-01T00:00:00Z"
    )
    raise ValueError(msg)


def is_date(value: int) -> bool:
    """Return whether a time looks like a date in milliseconds."""
    return BEYOND_SECONDS <= value < _YEAR_10000_MS


def describe_event_time(value: int) -> str:
    """Return a time as a person reads it: ISO 8601 where it looks like a date, else the number."""
    if value == END_OF_TIME:
        return "the end of time"
    if is_date(value):
        moment = _EPOCH + value * _MILLISECOND
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return str(value)


def parse_span(text: str, *, bare_ms: int | None = None) -> int:
    """Read a length of time as a person writes it, in ms; `describe_span` shows it.

    ``bare_ms`` is what a number without a unit counts; without it that is a ``ValueError``.

    Examples
    --------
    >>> parse_span("90s"), parse_span("7d"), parse_span("1500", bare_ms=1)
    (90000, 604800000, 1500)
    """
    match = _SPAN.match(text)
    size = match and (dict(_UNITS_MS).get(match[2], 1) if match[2] else bare_ms)
    if not match or size is None:
        msg = f"{text[:40]!r} is not a length of time; write a whole number and ms, s, m, h or d: 5m"
        raise ValueError(msg)
    return int(match[1]) * size


def check_span(name: str, value: object) -> timedelta:
    """Return a value if it is a timedelta; ``TypeError`` with its name if it is something else."""
    if not isinstance(value, timedelta):
        msg = f"{name} is {value!r}; pass a timedelta, such as timedelta(seconds=10)"
        raise TypeError(msg)
    return value


def describe_span(span_ms: int) -> str:
    """Return a length of time as a person reads it, in its two largest units.

    Examples
    --------
    >>> describe_span(5_412_345)
    '1h 30m'
    """
    if abs(span_ms) < 1_000:
        return f"{span_ms}ms"
    parts: list[str] = []
    left = abs(span_ms)
    for unit, size in _UNITS_MS:
        if left >= size and len(parts) < 2:
            parts.append(f"{left // size}{unit}")
        left %= size
    return ("-" if span_ms < 0 else "") + " ".join(parts)


def looks_like_seconds(value: int) -> bool:
    """Return whether a time is so small that it was probably meant in seconds."""
    return 0 < value < BEYOND_SECONDS


def check_unit(value: int) -> None:
    """Raise ``ValueError`` if a time that somebody asks for was probably meant in another unit.

    Of seconds, only what would be a date of the years up to 2100 in seconds is refused: an archive may begin in 1971.
    """
    if 0 < value < _SECONDS_OF_2100:
        msg = (
            f"{value} lies in early 1970: are these seconds? Times are milliseconds, such as "
            f"{value * 1_000}; a stream whose times are as early needs max_future_skew_ms=null"
        )
        raise ValueError(msg)
    # The end of the year 9999, rounded up, is where a read ends that wants all there is.
    if value not in (END_OF_TIME, _YEAR_10000_MS) and not is_held(value):
        raise ValueError(describe_unheld(value))


def is_held(value: int) -> bool:
    """Return whether readers can hold the time of an event: it lies in the years 1 to 9999."""
    return _YEAR_1_MS <= value < _YEAR_10000_MS


def describe_unheld(value: int) -> str:
    """Return what is wrong with the time of an event that no reader can hold, and the cure."""
    if value == END_OF_TIME:
        return f"{value} is the end of time; seal the stream to end it"
    problem = f"no reader can hold {value}, which lies beyond the years 1 to 9999"
    for unit, size in (("microseconds", 1_000), ("nanoseconds", 1_000_000)):
        if is_date(value // size):
            return (
                f"{problem}: are these {unit}? Times are milliseconds, such as {value // size}"
            )
    return f"{problem}; times are milliseconds since 1970"


def _within_64_bits(value: int) -> int:
    if not FIRST_TIME <= value <= END_OF_TIME:
        msg = f"{value} does not fit into a signed 64-bit integer"
        raise ValueError(msg)
    return value
