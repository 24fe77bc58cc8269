"""Which windows a row is in, and which of them are gone."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar, Protocol

from spark_source._durations import option_ms
from spark_source._errors import InvalidOptionError
from spark_source.processing.keys import Row
from spark_source.processing.window_state import Aggregation, WindowState

Windows = dict[int, WindowState]
"""The windows of a key by their starts, of which no two are the same."""

_NO_TIME = timedelta()


@dataclass(slots=True)
class Placement:
    """Where the rows of a step went, of one key.

    Attributes
    ----------
    changed
        Windows with new rows, by their starts.
    late
        Rows all of whose windows are gone.
    partially_late
        How many rows lost some windows, and are in others.
    """

    changed: Windows = field(default_factory=dict)
    late: list[Row] = field(default_factory=list)
    partially_late: int = 0


class Assigner(Protocol):
    """A way of dividing a key's rows into windows ``[start, end)``."""

    @property
    def closing_delay_ms(self) -> int:
        """How long after its end a window closes."""

    def place(
        self, windows: Windows, rows: list[Row], gone: float, aggregation: Aggregation
    ) -> Placement:
        """Add rows to the windows of their key, which it changes.

        Parameters
        ----------
        windows
            Those that are kept.
        rows
            Of one key and step.
        gone
            Windows that end at this time or before are gone.
        aggregation
            Adds rows to windows.
        """


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

    def place(
        self, windows: Windows, rows: list[Row], gone: float, aggregation: Aggregation
    ) -> Placement:
        """Add each row to every window that contains it and is not gone."""
        placement = Placement()
        size, slide = self.size_ms, self.slide_ms
        for row in rows:
            time = row[1]
            latest = time - (time - self.offset_ms) % slide
            if latest + size <= gone:
                placement.late.append(row)
                continue
            for start in range(latest, time - size, -slide):
                if start + size <= gone:
                    # So are the others, which end before.
                    placement.partially_late += 1
                    break
                window = windows.get(start)
                if window is None:
                    window = windows[start] = aggregation.open_window(start, start + size)
                aggregation.add(window, row)
                placement.changed[start] = window
        return placement


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

    def place(
        self, windows: Windows, rows: list[Row], gone: float, aggregation: Aggregation
    ) -> Placement:
        """Merge kept windows and all rows, then see which of the sessions are gone.

        All rows, since one that would be gone alone may be kept by another that it touches.
        """
        placement = Placement()
        for found in self._sessions(windows.values(), rows):
            if found.end_ms <= gone:
                placement.late += found.rows
            elif found.rows:
                session = aggregation.open_window(found.start_ms, found.end_ms)
                for part in found.parts:
                    aggregation.absorb(session, windows.pop(part.start_ms))
                for row in found.rows:
                    aggregation.add(session, row)
                windows[found.start_ms] = placement.changed[found.start_ms] = session
        return placement

    def _sessions(self, windows: Iterable[WindowState], rows: list[Row]) -> list["_Session"]:
        spans = [_Session(one.start_ms, one.end_ms, [one], []) for one in windows]
        spans += [_Session(row[1], row[1] + self.gap_ms, [], [row]) for row in rows]
        spans.sort(key=lambda span: span.start_ms)
        sessions: list[_Session] = []
        for span in spans:
            last = sessions[-1] if sessions else span
            if last is span or span.start_ms > last.end_ms:
                sessions.append(span)
            else:
                last.end_ms = max(last.end_ms, span.end_ms)
                last.parts += span.parts
                last.rows += span.rows
        return sessions


@dataclass(slots=True)
class _Session:
    """What becomes one session: windows and rows that overlap or touch."""

    start_ms: int
    end_ms: int
    parts: list[WindowState]
    rows: list[Row]


def tumbling(size: str | timedelta, offset: str | timedelta = _NO_TIME) -> SlidingWindows:
    """Divide time into windows of one size.

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
    """Cover time with windows that overlap; a row is in every one that contains it.

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
    """Divide the rows of a key where it was silent for longer than a gap.

    Parameters
    ----------
    gap
        For example ``"30 minutes"``; rows that are this far apart are in one session.
    """
    return SessionWindows(option_ms("gap", gap))
