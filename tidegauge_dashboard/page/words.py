"""Times, spans and counts as text.

A moment that a browser can hold goes to the page as ``{"ms": …}``, which shows it in the zone that
somebody chose; all others as ``{"text": …}``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from tidegauge.event_time import END_OF_TIME, describe_span, is_date

Part: TypeAlias = dict[str, Any]
"""Something that the page draws, as JSON."""

_MANY = 10_000


def grouped(number: int) -> str:
    """Show a number with its thousands apart.

    Examples
    --------
    >>> grouped(26110)
    '26,110'
    """
    return f"{number:,}"


def rounded(number: float) -> str:
    """Show a count that may be large.

    Examples
    --------
    >>> rounded(25_410), rounded(999)
    ('25.4k', '999')
    """
    if number < _MANY:
        return grouped(round(number))
    for unit, size in (("k", 1e3), ("M", 1e6), ("G", 1e9)):
        if number < 1_000 * size:
            return f"{number / size:.1f}{unit}"
    return f"{number / 1e12:.1f}T"


def per_second(rate: float) -> str:
    """Show a rate; empty for one that would be shown as none.

    Examples
    --------
    >>> per_second(2.25), per_second(0.04)
    ('2.2/s', '')
    """
    if rate < 0.05:
        return ""
    return f"{rate:.1f}/s" if rate < 100 else f"{rounded(rate)}/s"


def table_text(table: str | None, version: int | None) -> str | None:
    """Describe the table that a stream is, and at which version it is complete; None if it is none."""
    if table is None:
        return None
    reached = "no version yet" if version is None else f"version {grouped(version)}"
    return f"table {table}, {reached}"


def plural(count: int, what: str, *, show: Callable[[int], str] = grouped) -> str:
    """Show a count of things."""
    return f"{show(count)} {what}" if count == 1 else f"{show(count)} {what}s"


@dataclass(frozen=True, slots=True)
class Times:
    """How the event times of a stream are read.

    Attributes
    ----------
    follows_clock
        Whether they are ms of wall clock, so that they have an age.
    dated
        Whether they look like dates; else they are numbers, whose unit only the application knows.
    """

    follows_clock: bool
    dated: bool

    @classmethod
    def of(cls, *, follows_clock: bool, example: int | None) -> "Times":
        """Decide by one of them; END_OF_TIME and None are no example."""
        if example is None or example == END_OF_TIME:
            return cls(follows_clock, follows_clock)
        return cls(follows_clock, is_date(example))

    def moment(self, time: int | None) -> Part | None:
        """Show a time; None for none."""
        if time is None:
            return None
        if time == END_OF_TIME:
            return {"text": "end of time"}
        if is_date(time):
            return {"ms": time}
        note = "in early 1970" if self.follows_clock else "logical"
        return {"text": grouped(time), "note": note}

    def distance(self, span: int) -> str:
        """Show how far two times lie apart."""
        return span_text(span) if self.dated else grouped(span)


def span_text(span_ms: int) -> str:
    """Show a span as `describe_span` does, without fractions of a second."""
    return describe_span(span_ms) if span_ms >= 1_000 else "0s"
