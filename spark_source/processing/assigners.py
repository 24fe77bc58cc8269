"""Which windows a row is in."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, TypeAlias, overload

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import option_ms
from tidegauge.local_days import DAY_MS, day_of, find_zone, first_moment

_NO_TIME = timedelta()


@dataclass(frozen=True, slots=True)
class SlidingWindows:
    """Windows of one size that start every `slide_ms`; tumbling if that is their size.

    Parameters
    ----------
    size_ms, slide_ms
        ``0 < slide <= size``, so that no row is between windows.
    offset_ms
        Windows start at ``offset + k * slide`` for every integer k.
    """

    size_ms: int
    slide_ms: int
    offset_ms: int = 0
    closing_delay_ms: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if not 0 < self.slide_ms <= self.size_ms:
            raise InvalidOptionError(
                "slide",
                f"{self.slide_ms} ms with a size of {self.size_ms} ms; the slide has to be "
                "above 0 and at most the size, or rows would be in no window",
            )


@dataclass(frozen=True, slots=True)
class LocalDayWindows:
    """Windows of whole days of a time zone, which last longer or shorter where clocks change.

    Parameters
    ----------
    days
        How many days a window has.
    zone
        The name of the time zone.
    offset_days
        Windows start at the days ``offset + k * days`` for every integer k; 1970-01-01 is day 0.
    """

    days: int
    zone: str
    offset_days: int = 0
    closing_delay_ms: ClassVar[int] = 0

    def __post_init__(self) -> None:
        if self.days < 1:
            raise InvalidOptionError("size", f"{self.days} days; it has to be at least 1")
        try:
            find_zone(self.zone)
        except ValueError as error:
            raise InvalidOptionError("zone", str(error)) from None

    def window_of(self, time_ms: int) -> tuple[int, int]:
        """Return where the window of a time starts and ends, in ms."""
        zone = find_zone(self.zone)
        day = day_of(zone, time_ms)
        first = day - (day - self.offset_days) % self.days
        return first_moment(zone, first), first_moment(zone, first + self.days)


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """Windows that end when a key has been silent for a gap.

    Parameters
    ----------
    gap_ms
        A row opens ``[t, t + gap)``; windows of a key that overlap or touch are merged.
    """

    gap_ms: int
    # A row at the end, on time while the bound is the end, still touches the session.
    closing_delay_ms: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if self.gap_ms <= 0:
            raise InvalidOptionError("gap", f"{self.gap_ms} ms; it has to be above 0")


Assigner: TypeAlias = SlidingWindows | LocalDayWindows | SessionWindows
"""A way of dividing a key's rows into windows ``[start, end)``."""


@overload
def tumbling(
    size: str | timedelta, offset: str | timedelta = ..., *, zone: None = None
) -> SlidingWindows: ...
@overload
def tumbling(
    size: str | timedelta, offset: str | timedelta = ..., *, zone: str
) -> LocalDayWindows: ...
def tumbling(
    size: str | timedelta, offset: str | timedelta = _NO_TIME, *, zone: str | None = None
) -> SlidingWindows | LocalDayWindows:
    """Assign rows to windows of one size that follow one another.

    Parameters
    ----------
    size
        For example ``"1 hour"``.
    offset
        Windows start at ``offset + k * size`` for every integer k.
    zone
        A time zone such as ``"Europe/Paris"``. Windows are its local days then, 23 or 25 hours
        long where clocks change; size and offset are whole days. ``"7 days"`` with the offset
        ``"4 days"`` are weeks from Monday on.

    Examples
    --------
    >>> tumbling("1 day", zone="Europe/Paris")
    LocalDayWindows(days=1, zone='Europe/Paris', offset_days=0)
    """
    if zone is None:
        return sliding(size, size, offset)
    return LocalDayWindows(_days("size", size), zone, _days("offset", offset))


def sliding(
    size: str | timedelta, slide: str | timedelta, offset: str | timedelta = _NO_TIME
) -> SlidingWindows:
    """Assign rows to windows that overlap; a row is in every window that contains it.

    Parameters
    ----------
    size
        For example ``"1 hour"``.
    slide
        From one start to the next; above 0 and at most the size.
    offset
        Windows start at ``offset + k * slide`` for every integer k.
    """
    return SlidingWindows(
        option_ms("size", size), option_ms("slide", slide), option_ms("offset", offset)
    )


def _days(option: str, value: str | timedelta) -> int:
    """Read the whole days that an option of windows in a time zone has."""
    days, rest = divmod(option_ms(option, value), DAY_MS)
    if rest:
        cure = (
            "with zone= windows are of whole days, such as '1 day'; leave zone= out for others"
        )
        raise InvalidOptionError(option, f"{value!r}: {cure}")
    return days


def session(gap: str | timedelta) -> SessionWindows:
    """Assign the rows of a key to sessions, which end after a gap without rows.

    Parameters
    ----------
    gap
        For example ``"30 minutes"``; rows that are this far apart are in one session.
    """
    return SessionWindows(option_ms("gap", gap))
