"""Intervals of event time: how they tile it, and which of them a batch job has to run again.

All of it is pure. A work list of a table or of a stream is made of these.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from zoneinfo import ZoneInfo

from tidegauge.errors import TidegaugeError
from tidegauge.event_time import (
    END_OF_TIME,
    describe_event_time,
    describe_span,
    parse_span,
)
from tidegauge.local_days import DAY_MS, day_of, find_zone, first_moment

_MOST = 100_000
"""Nobody runs more; a row of 1970, or a note of the year 9999, would make them."""

CURSOR_CURE = "pass cursor of a former call, or none and start="
"""For a text that is no cursor, or one of a former version."""
_LONG_FORM = re.compile(r"([0-9]+) (second|minute|hour|day)s?\Z", re.ASCII)


class GoneError(TidegaugeError):
    """What came after a cursor is not kept any more, or its table or stream was created again.

    Attributes
    ----------
    name
        Of the table or the stream, as it was given.
    """

    def __init__(self, name: str, problem: str) -> None:
        self.name = name
        cure = "begin without the cursor, and to run only what may have changed, with start="
        super().__init__(f"{name} {problem}; {cure}")


class TooManyIntervalsError(TidegaugeError, ValueError):
    """There would be more intervals than a job can run.

    Attributes
    ----------
    name
        Of the table or the stream, as it was given.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name} has more than {_MOST} intervals: of one row far in the past, or a note far in "
            "the future? Pass start=, or a longer by="
        )


def other_cursor(former: object, now: object, start: int) -> ValueError:
    """Make the error of a cursor of other lists, and say from where to begin anew, ms."""
    at = ", the end of the last interval that you know to be right"
    if start != END_OF_TIME:
        at = f"{describe_event_time(start)}; everything before that has been listed"
    cure = "start again without it (with --state, in another file) and pass start="
    return ValueError(f"this cursor is for {former}, not for {now}; {cure}{at}")


@dataclass(frozen=True, order=True, slots=True)
class Interval:
    """An interval of event time, and why it must run again.

    Attributes
    ----------
    start, end
        ms; ``end`` is excluded.
    rows
        That came late; 0 in what is new.
    late_by
        The most that one of them was late by, ms.
    rewritten
        Whether files that may have rows of it were removed or rewritten.
    """

    start: int
    end: int
    rows: int = 0
    late_by: int = 0
    rewritten: bool = False


@dataclass(frozen=True, slots=True)
class Tiling:
    """Intervals of one length from the epoch on, or within each local day of a zone.

    Within a local day they begin at its first moment, and the last one ends where the day does.

    Attributes
    ----------
    length
        ms.
    zone
        Of the local days; None for UTC.
    """

    length: int
    zone: ZoneInfo | None = None

    @classmethod
    def parse(cls, by: str, zone: str | None = None) -> "Tiling":
        """Read a length such as ``1 hour``, ``15m`` or ``7 days``, and the name of a zone.

        Raises
        ------
        ValueError
            If the length is none, or with a zone neither divides a day nor is made of days, or if
            there is no such zone.
        """
        written = _LONG_FORM.match(by)
        length = parse_span(f"{written[1]}{written[2][0]}" if written else by)
        if length <= 0:
            msg = f"by={by!r} is no length of intervals; write one such as 1 hour"
            raise ValueError(msg)
        if zone is None:
            return cls(length)
        if DAY_MS % length and length % DAY_MS:
            msg = (
                f"by={by!r} neither divides a day nor is made of days, as intervals of local days "
                "must; write one such as 1 hour or 1 day, or leave zone= out"
            )
            raise ValueError(msg)
        found = find_zone(zone)
        return cls(length, None if zone == "UTC" else found)

    @property
    def zone_name(self) -> str | None:
        """The name of the zone; None for UTC."""
        return None if self.zone is None else self.zone.key

    def __str__(self) -> str:
        return f"{describe_span(self.length)} intervals in {self.zone_name or 'UTC'}"

    def check_cursor(self, former: "Tiling", until: int) -> None:
        """Refuse a cursor of other intervals: what is complete in those may be in no list of these.

        Parameters
        ----------
        former
            The intervals that the cursor is of.
        until
            Until when the call was complete that it is of, ms.
        """
        if former != self:
            start = until if until == END_OF_TIME else self.floor(former.floor(until))
            raise other_cursor(former, self, start)

    def floor(self, time: int) -> int:
        """Return the start of the interval that a time is in."""
        if self.zone is None:
            return time - time % self.length
        day = day_of(self.zone, time)
        if self.length >= DAY_MS:
            return first_moment(self.zone, day - day % self._days)
        midnight = first_moment(self.zone, day)
        return midnight + (time - midnight) // self.length * self.length

    def after(self, start: int) -> int:
        """Return where the interval ends that begins at a time."""
        if self.zone is None:
            return start + self.length
        day = day_of(self.zone, start)
        if self.length >= DAY_MS:
            return first_moment(self.zone, day - day % self._days + self._days)
        return min(start + self.length, first_moment(self.zone, day + 1))

    def ceil(self, time: int) -> int:
        """Return the start of the first interval that begins at a time or later."""
        start = self.floor(time)
        return start if start == time else self.after(start)

    def between(self, name: str, start: int, end: int) -> Iterator[Interval]:
        """List the intervals of a table or a stream from one that begins at ``start`` up to ``end``.

        Raises
        ------
        TooManyIntervalsError
            If there are more than 100 000.
        """
        for _ in range(_MOST):
            following = self.after(start)
            if following > end:
                return
            yield Interval(start, following)
            start = following
        if self.after(start) <= end:
            raise TooManyIntervalsError(name)

    @property
    def _days(self) -> int:
        return self.length // DAY_MS


@dataclass
class ChangedIntervals:
    """Collects the intervals that were complete already, and have changed since.

    Attributes
    ----------
    tiling
        Which intervals there are.
    name
        Of the table or the stream.
    until
        Before it all were complete, then and now, ms.
    first
        Nothing before it is collected; None without a limit.
    """

    tiling: Tiling
    name: str
    until: int
    first: int | None = None
    _intervals: dict[int, Interval] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # After the end of time every interval is complete, also one that is empty now.
        if self.until != END_OF_TIME:
            self.until = self.tiling.floor(self.until)

    def add_late(self, times: Iterable[int], reached: int | None) -> None:
        """Count rows by their times, ms, that came when time had been noted up to ``reached``."""
        for time in times:
            if time >= self.until:
                continue
            interval = self._at(time)
            late_by = (
                interval.late_by if reached is None else max(interval.late_by, reached - time)
            )
            self._intervals[interval.start] = replace(
                interval, rows=interval.rows + 1, late_by=late_by
            )

    def add_rewritten(self, times: Iterable[int]) -> None:
        """Mark the intervals of the times, ms, of rows that were removed or rewritten."""
        for time in times:
            if time < self.until:
                interval = self._at(time)
                self._intervals[interval.start] = replace(interval, rewritten=True)

    def starts_between(self, low: int, high: int) -> Iterable[int]:
        """List the starts of those that have a time from ``low`` to ``high``, both included."""
        low = low if self.first is None else max(low, self.first)
        if low > high or low >= self.until:
            return []
        end = min(self.until, self.tiling.after(self.tiling.floor(high)))
        intervals = self.tiling.between(self.name, self.tiling.floor(low), end)
        return (interval.start for interval in intervals)

    def listed(self) -> list[Interval]:
        """List them in order."""
        intervals = sorted(self._intervals.values())
        return [
            interval
            for interval in intervals
            if self.first is None or interval.start >= self.first
        ]

    def _at(self, time: int) -> Interval:
        start = self.tiling.floor(time)
        return self._intervals.get(start) or Interval(start, self.tiling.after(start))
