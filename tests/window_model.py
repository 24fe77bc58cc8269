"""Windows row by row: the model that windows over columns are compared with.

It holds nothing between steps: a step takes the state of a bucket and returns the next.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Literal, NamedTuple, TypeAlias
from zoneinfo import ZoneInfo

from spark_source.processing import blobs
from spark_source.processing.aggregates import Aggregate, BuiltIn
from spark_source.processing.assigners import LocalDayWindows, SessionWindows, SlidingWindows
from spark_source.processing.bounds import late_by, limit_of, time_of
from spark_source.processing.keys import Key, Row, key_order
from spark_source.processing.windowed import WindowSettings
from tidegauge.event_time import END_OF_TIME

Kind: TypeAlias = Literal["result", "retraction"]
Pane: TypeAlias = Literal["early", "on_time", "late"]

# Of a row: key, event time, segment, offset. The columns follow.
_BEFORE_COLUMNS = 4


@dataclass(slots=True)
class WindowState:
    """A window of a key, with the rows that are in it.

    Attributes
    ----------
    start_ms, end_ms
        The window is ``[start, end)``.
    rows
        Those not said yet if firings discard, else all.
    unsaid
        How many rows no firing has said yet.
    pane_index
        Of the next firing.
    standing
        Firings that have to be retracted; empty unless firings retract.
    """

    start_ms: int
    end_ms: int
    rows: list[Row] = field(default_factory=list)
    unsaid: int = 0
    pane_index: int = 0
    standing: list["Firing"] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row."""
        self.unsaid += 1
        self.rows.append(row)

    def absorb(self, part: "WindowState") -> None:
        """Merge a part into this window, which may be larger than both already."""
        self.unsaid += part.unsaid
        self.rows += part.rows
        self.pane_index = max(self.pane_index, part.pane_index)
        self.standing += part.standing


def window_order(window: "WindowState | Firing") -> tuple[int, int]:
    """Order windows by end, then by start."""
    return window.end_ms, window.start_ms


def aggregate_of(
    aggregate: Aggregate | BuiltIn, columns: Sequence[str], rows: Sequence[Row]
) -> Any:
    """Aggregate a column of rows, all of them anew."""
    if aggregate.column is None:
        return len(rows)
    at = _BEFORE_COLUMNS + columns.index(aggregate.column)
    values = [row[at] for row in rows]
    if isinstance(aggregate, BuiltIn):
        known = [value for value in values if value is not None]
        return _OF_KIND[aggregate.kind](known) if known else None
    accumulator = aggregate.zero()
    for value in values:
        accumulator = aggregate.add(accumulator, value)
    return aggregate.result(accumulator)


_OF_KIND: dict[str, Callable[[list[Any]], Any]] = {
    "sum": sum,
    "min": min,
    "max": max,
    "mean": lambda values: sum(values) / len(values),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Windows = dict[int, WindowState]
"""The windows of a key by their starts, of which no two are the same."""


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


def _place_sliding(
    assigner: SlidingWindows,
    windows: Windows,
    rows: list[Row],
    gone: float,
) -> Placement:
    """Add each row to every window that contains it and is not gone."""
    placement = Placement()
    size, slide = assigner.size_ms, assigner.slide_ms
    for row in rows:
        time = row[1]
        latest = time - (time - assigner.offset_ms) % slide
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
                window = windows[start] = WindowState(start, start + size)
            window.add(row)
            placement.changed[start] = window
    return placement


def _place_days(
    assigner: LocalDayWindows,
    windows: Windows,
    rows: list[Row],
    gone: float,
) -> Placement:
    """Add each row to the window of its date, in a zone whose clocks never pass midnight twice."""
    placement = Placement()
    zone = ZoneInfo(assigner.zone)
    for row in rows:
        shown = (_EPOCH + timedelta(milliseconds=row[1])).astimezone(zone).date()
        number = (shown - _EPOCH.date()).days
        first = number - (number - assigner.offset_days) % assigner.days
        start, end = (_midnight(first, zone), _midnight(first + assigner.days, zone))
        if end <= gone:
            placement.late.append(row)
            continue
        window = windows.setdefault(start, WindowState(start, end))
        window.add(row)
        placement.changed[start] = window
    return placement


def _midnight(number: int, zone: ZoneInfo) -> int:
    day = date(1970, 1, 1) + timedelta(days=number)
    return int(datetime.combine(day, time(), zone).timestamp()) * 1_000


def _place_sessions(
    assigner: SessionWindows,
    windows: Windows,
    rows: list[Row],
    gone: float,
) -> Placement:
    """Merge kept windows and all rows, then see which of the sessions are gone.

    All rows, since one that would be gone alone may be kept by another that it touches.
    """
    placement = Placement()
    for found in _sessions(windows.values(), rows, assigner.gap_ms):
        if found.end_ms <= gone:
            placement.late += found.rows
        elif found.rows:
            session = WindowState(found.start_ms, found.end_ms)
            for part in found.parts:
                session.absorb(windows.pop(part.start_ms))
            for row in found.rows:
                session.add(row)
            windows[found.start_ms] = placement.changed[found.start_ms] = session
    return placement


def _sessions(windows: Iterable[WindowState], rows: list[Row], gap_ms: int) -> list["_Session"]:
    spans = [_Session(one.start_ms, one.end_ms, [one], []) for one in windows]
    spans += [_Session(row[1], row[1] + gap_ms, [], [row]) for row in rows]
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


class Firing(NamedTuple):
    """A row of the output.

    Attributes
    ----------
    key
        The window's key.
    start_ms, end_ms
        The window is ``[start, end)``.
    kind
        Whether it says a result, or takes one back that was said before.
    pane
        Whether the window was open (``early``), closing or closed (``late``).
    pane_index
        Counts the firings of a window and of those merged into it.
    values
        Of the aggregates.
    """

    key: Key
    start_ms: int
    end_ms: int
    kind: Kind
    pane: Pane
    pane_index: int
    values: tuple[Any, ...]


@dataclass(slots=True)
class WindowStep:
    """What a step of the windows' operator came to.

    Attributes
    ----------
    state
        The bucket's state from now on; None if there is none.
    next_bound
        The least bound at which a step without rows does something; None if there is none.
    out
        Firings, ordered by key; of a key those on time, then late, then early ones.
    late
        Rows all of whose windows are gone, each followed by how far it is below the bound in ms
        (`END_OF_TIME` at the end of time).
    added
        How many rows were added to at least one window.
    partially_late
        How many of these lost some of their windows.
    windows
        How many windows are held after the step.
    """

    state: bytes | None = None
    next_bound: int | None = None
    out: list[Firing] = field(default_factory=list)
    late: list[Row] = field(default_factory=list)
    added: int = 0
    partially_late: int = 0
    windows: int = 0


class _Times(NamedTuple):
    """A step's bound, and what it means for windows by their ends."""

    bound: int | None
    closed_before: float
    """Windows that end at this time or before had closed before the step."""
    closed: float
    gone: float


_Saved: TypeAlias = tuple[int, list[WindowState]]
"""Of a key: the least bound at which something happens, and its windows."""


class WindowModel:
    """Aggregates the rows of each key of a bucket by windows, step by step."""

    def __init__(self, settings: WindowSettings) -> None:
        self._assigner = settings.assigner
        self._aggregates = list(settings.aggregates.values())
        self._columns = settings.columns
        self._lateness_ms = settings.lateness_ms
        self._discards = settings.accumulation == "discarding"
        self._retracts = settings.accumulation == "accumulating_and_retracting"
        self._fires_early = settings.trigger == "early"
        self._state_settings = settings.of_state()

    def step(self, state: bytes | None, bound: int | None, rows: Iterable[Row]) -> WindowStep:
        """Raise the bound, and take rows.

        Parameters
        ----------
        state
            What the step before returned; None before the first.
        bound
            In ms; None before the first mark, `END_OF_TIME` at the end. It never falls.
        rows
            Key, event time in ms, segment, offset, and the columns.

        Raises
        ------
        MissingEventTimeError
            If a row has no event time.
        """
        step = WindowStep()
        bound_before, keys = self._restore(state)
        times = self._times(bound_before, bound)
        arrived = defaultdict[Key, list[Row]](list)
        for row in rows:
            time_of(row)
            arrived[row[0]].append(row)
        due = {key for key, (due_bound, _) in keys.items() if due_bound <= limit_of(bound)}
        for key in sorted(due | arrived.keys(), key=key_order):
            _, saved = keys.pop(key, (0, []))
            windows = {window.start_ms: window for window in saved}
            self._advance(key, windows, times, step)
            if key in arrived:
                self._take(key, windows, arrived[key], times, step)
            if windows:
                keys[key] = self._saved(windows, times)
        self._finish(step, keys, bound)
        return step

    def _times(self, bound_before: int | None, bound: int | None) -> _Times:
        delay = self._assigner.closing_delay_ms
        closed = limit_of(bound) - delay
        return _Times(bound, limit_of(bound_before) - delay, closed, closed - self._lateness_ms)

    def _advance(self, key: Key, windows: Windows, times: _Times, step: WindowStep) -> None:
        """Fire the windows that close now, then free those that are gone."""
        closing = [
            window
            for window in windows.values()
            if times.closed_before < window.end_ms <= times.closed
        ]
        for window in sorted(closing, key=window_order):
            self._fire(key, window, "on_time", step)
        for window in list(windows.values()):
            if window.end_ms <= times.gone:
                del windows[window.start_ms]

    def _take(
        self, key: Key, windows: Windows, rows: list[Row], times: _Times, step: WindowStep
    ) -> None:
        """Add rows to their windows, and fire those of them that have closed already."""
        placed = self._place(windows, rows, times.gone)
        step.late += [(*row, late_by(times.bound, row[1])) for row in placed.late]
        step.added += len(rows) - len(placed.late)
        step.partially_late += placed.partially_late
        # Closed windows end before open ones, so late firings come before early ones.
        for window in sorted(placed.changed.values(), key=window_order):
            if window.end_ms <= times.closed:
                self._fire(key, window, "late", step)
            elif self._fires_early:
                self._fire(key, window, "early", step)

    def _place(self, windows: Windows, rows: list[Row], gone: float) -> Placement:
        if isinstance(self._assigner, SlidingWindows):
            return _place_sliding(self._assigner, windows, rows, gone)
        if isinstance(self._assigner, LocalDayWindows):
            return _place_days(self._assigner, windows, rows, gone)
        return _place_sessions(self._assigner, windows, rows, gone)

    def _fire(self, key: Key, window: WindowState, pane: Pane, step: WindowStep) -> None:
        if self._discards and not window.unsaid:
            return
        values = tuple(
            aggregate_of(one, self._columns, window.rows) for one in self._aggregates
        )
        start, end = window.start_ms, window.end_ms
        result = Firing(key, start, end, "result", pane, window.pane_index, values)
        taken_back = sorted(window.standing, key=window_order)
        step.out += [one._replace(kind="retraction") for one in taken_back]
        step.out.append(result)
        window.pane_index += 1
        window.unsaid = 0
        if self._discards:
            window.rows = []
        if self._retracts:
            window.standing = [result]

    def _restore(self, state: bytes | None) -> tuple[int | None, dict[Key, _Saved]]:
        if state is None:
            return None, {}
        restored: tuple[int | None, dict[Key, _Saved]] = blobs.restore(
            state, self._state_settings
        )
        return restored

    def _saved(self, windows: Windows, times: _Times) -> _Saved:
        delay = self._assigner.closing_delay_ms
        due = END_OF_TIME
        for window in windows.values():
            kept_ms = self._lateness_ms if window.end_ms <= times.closed else 0
            due = min(due, window.end_ms + delay + kept_ms)
        return due, list(windows.values())

    def _finish(self, step: WindowStep, keys: dict[Key, _Saved], bound: int | None) -> None:
        if not keys:
            return
        step.state = blobs.save(self._state_settings, (bound, keys))
        step.next_bound = min(due for due, _ in keys.values())
        step.windows = sum(len(windows) for _, windows in keys.values())
