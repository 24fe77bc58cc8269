"""Which windows a row is in."""

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, TypeAlias

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import option_ms

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


Assigner: TypeAlias = SlidingWindows | SessionWindows
"""A way of dividing a key's rows into windows ``[start, end)``."""


def tumbling(size: str | timedelta, offset: str | timedelta = _NO_TIME) -> SlidingWindows:
    """Assign rows to windows of one size that follow one another.

    Parameters
    ----------
    size
        For example ``"1 hour"``.
    offset
        Windows start at ``offset + k * size`` for every integer k.
    """
    return sliding(size, size, offset)


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


def session(gap: str | timedelta) -> SessionWindows:
    """Assign the rows of a key to sessions, which end after a gap without rows.

    Parameters
    ----------
    gap
        For example ``"30 minutes"``; rows that are this far apart are in one session.
    """
    return SessionWindows(option_ms("gap", gap))
