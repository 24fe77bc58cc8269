"""The operator of windows with allowed lateness.

It holds nothing between steps, as that of processors: a step takes the state of a bucket and
returns the next.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from spark_source._errors import InvalidOptionError
from spark_source.processing import blobs
from spark_source.processing.aggregates import Aggregate
from spark_source.processing.assigners import Assigner, Windows
from spark_source.processing.bounds import late_by, limit_of, time_of
from spark_source.processing.keys import Key, Row, key_order
from spark_source.processing.window_state import (
    Aggregation,
    Pane,
    Result,
    WindowState,
    window_order,
)
from tidegauge.event_time import END_OF_TIME

Accumulation: TypeAlias = Literal["accumulating", "discarding", "accumulating_and_retracting"]
Trigger: TypeAlias = Literal["on_time", "early"]
Kind: TypeAlias = Literal["result", "retraction"]


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


_Saved: TypeAlias = tuple[int, list[tuple[Any, ...]]]
"""Of a key: the least bound at which something happens, and its windows."""


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """What the windows of a query are, and when and what they say.

    Attributes
    ----------
    assigner
        For example of `tumbling`, `sliding` or `session`.
    aggregates
        By the names of their columns in the output.
    columns
        The names of what follows key, event time, segment and offset in a row.
    lateness_ms
        How long after it has closed a window is kept, for rows that are late.
    accumulation
        Whether a firing says all rows so far (``accumulating``), those not said yet
        (``discarding``), or all and takes back what was said before
        (``accumulating_and_retracting``).
    trigger
        Whether windows fire also while they are open, in each step that changes them
        (``early``), or not (``on_time``).
    buckets
        How many buckets the keys are divided over; state remembers it.
    """

    assigner: Assigner
    aggregates: Mapping[str, Aggregate]
    columns: Sequence[str] = ("value",)
    lateness_ms: int = 0
    accumulation: Accumulation = "accumulating"
    trigger: Trigger = "on_time"
    buckets: int = 1

    def __post_init__(self) -> None:
        if self.lateness_ms < 0:
            raise InvalidOptionError("allowed_lateness", f"{self.lateness_ms} ms is below 0")
        _check_one_of("accumulation", self.accumulation, get_args(Accumulation))
        _check_one_of("trigger", self.trigger, get_args(Trigger))
        for name, aggregate in self.aggregates.items():
            column = aggregate.column
            if column is not None and column not in self.columns:
                has = ", ".join(self.columns) or "none"
                raise InvalidOptionError(
                    "aggregates", f"{name!r} is of column {column!r}; there are: {has}"
                )

    def of_state(self) -> blobs.Settings:
        """Return what state depends on; lateness and trigger may change at a restart."""
        return {
            "operator": "windowed",
            "assigner": repr(self.assigner),
            "aggregates": {
                # Not its repr, which may have an address in memory.
                name: (type(one).__qualname__, one.column)
                for name, one in self.aggregates.items()
            },
            "accumulation": self.accumulation,
            "buckets": self.buckets,
        }


def _check_one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidOptionError(option, f"{value!r} is none of {', '.join(allowed)}")


class WindowOperator:
    """Aggregates the rows of each key of a bucket by windows, step by step."""

    def __init__(self, settings: WindowSettings) -> None:
        self._assigner = settings.assigner
        self._aggregation = Aggregation(settings.aggregates, settings.columns)
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
            saved = [WindowState.of_tuple(one) for one in keys.pop(key, (0, []))[1]]
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
        placed = self._assigner.place(windows, rows, times.gone, self._aggregation)
        step.late += [(*row, late_by(times.bound, row[1])) for row in placed.late]
        step.added += len(rows) - len(placed.late)
        step.partially_late += placed.partially_late
        # Closed windows end before open ones, so late firings come before early ones.
        for window in sorted(placed.changed.values(), key=window_order):
            if window.end_ms <= times.closed:
                self._fire(key, window, "late", step)
            elif self._fires_early:
                self._fire(key, window, "early", step)

    def _fire(self, key: Key, window: WindowState, pane: Pane, step: WindowStep) -> None:
        if self._discards and not window.unsaid:
            return
        start, end = window.start_ms, window.end_ms
        values = self._aggregation.values(window)
        result = Result(start, end, pane, window.pane_index, values)
        said: list[tuple[Kind, Result]] = [
            ("retraction", one) for one in sorted(window.standing, key=window_order)
        ]
        for kind, one in [*said, ("result", result)]:
            step.out.append(
                Firing(
                    key, one.start_ms, one.end_ms, kind, one.pane, one.pane_index, one.values
                )
            )
        window.pane_index += 1
        window.unsaid = 0
        if self._discards:
            window.accumulators = self._aggregation.zeros()
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
        return due, [window.as_tuple() for window in windows.values()]

    def _finish(self, step: WindowStep, keys: dict[Key, _Saved], bound: int | None) -> None:
        if not keys:
            return
        step.state = blobs.save(self._state_settings, (bound, keys))
        step.next_bound = min(due for due, _ in keys.values())
        step.windows = sum(len(windows) for _, windows in keys.values())
