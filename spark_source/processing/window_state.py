"""What is kept of a window, and what becomes of its rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

from spark_source.processing.aggregates import Aggregate
from spark_source.processing.keys import Row

Pane: TypeAlias = Literal["early", "on_time", "late"]

# Of a row: key, event time, segment, offset. The columns follow.
_BEFORE_COLUMNS = 4


class Result(NamedTuple):
    """What a firing said of a window."""

    start_ms: int
    end_ms: int
    pane: Pane
    pane_index: int
    values: tuple[Any, ...]


@dataclass(slots=True)
class WindowState:
    """A window of a key, with the rows that are in it.

    Attributes
    ----------
    start_ms, end_ms
        The window is ``[start, end)``.
    unsaid
        How many rows no firing has said yet.
    accumulators
        One for each aggregate; of the rows not said yet if firings discard, else of all.
    pane_index
        Of the next firing.
    standing
        Results that have to be retracted; empty unless firings retract.
    """

    start_ms: int
    end_ms: int
    unsaid: int
    accumulators: list[Any]
    pane_index: int
    standing: list[Result]

    def as_tuple(self) -> tuple[Any, ...]:
        """Return the fields in order, the results as plain tuples, as a blob keeps them."""
        standing = [tuple(result) for result in self.standing]
        fields = self.start_ms, self.end_ms, self.unsaid, self.accumulators, self.pane_index
        return *fields, standing

    @classmethod
    def of_tuple(cls, fields: tuple[Any, ...]) -> "WindowState":
        """Read what `as_tuple` returned."""
        window = cls(*fields)
        window.standing = [Result(*result) for result in window.standing]
        return window


def window_order(window: WindowState | Result) -> tuple[int, int]:
    """Order windows by end, then by start."""
    return window.end_ms, window.start_ms


class Aggregation:
    """The aggregates of a query, kept together for each window.

    Parameters
    ----------
    aggregates
        By the names of their columns in the output.
    columns
        The names of what follows key, event time, segment and offset in a row.
    """

    def __init__(self, aggregates: Mapping[str, Aggregate], columns: Sequence[str]) -> None:
        self._aggregates = list(aggregates.values())
        places = [
            None if one.column is None else _BEFORE_COLUMNS + columns.index(one.column)
            for one in self._aggregates
        ]
        self._adders = [(one.add, at) for one, at in zip(self._aggregates, places, strict=True)]

    def open_window(self, start_ms: int, end_ms: int) -> WindowState:
        """Make a window without rows."""
        return WindowState(start_ms, end_ms, 0, self.zeros(), 0, [])

    def zeros(self) -> list[Any]:
        """Make the accumulators of no rows."""
        return [one.zero() for one in self._aggregates]

    def add(self, window: WindowState, row: Row) -> None:
        """Add a row to a window."""
        window.unsaid += 1
        window.accumulators = [
            add(accumulator, None if at is None else row[at])
            for accumulator, (add, at) in zip(window.accumulators, self._adders, strict=True)
        ]

    def absorb(self, window: WindowState, part: WindowState) -> None:
        """Merge a part into a window, which may be larger than both already."""
        window.unsaid += part.unsaid
        window.accumulators = [
            one.merge(left, right)
            for one, left, right in zip(
                self._aggregates, window.accumulators, part.accumulators, strict=True
            )
        ]
        window.pane_index = max(window.pane_index, part.pane_index)
        window.standing += part.standing

    def values(self, window: WindowState) -> tuple[Any, ...]:
        """Return the results of the aggregates."""
        return tuple(
            one.result(accumulator)
            for one, accumulator in zip(self._aggregates, window.accumulators, strict=True)
        )
