"""The spans of event time that rows are merged by: panes of sliding windows, local days, and sessions."""

from math import gcd
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_source.operators.window_rows import Numbers, numbers
from spark_source.processing.assigners import Assigner, LocalDayWindows, SlidingWindows

Breaks: TypeAlias = npt.NDArray[np.bool_]


class Spans(Protocol):
    """How rows are merged, in the columns ``start`` and ``end``, before and inside the operator."""

    def of_rows(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Return where the span of each row starts, and where the last of its windows ends."""

    def breaks(self, keys: Numbers, starts: Numbers, ends: Numbers) -> Breaks:
        """Return which spans begin another window than the span before, ordered by key and start."""

    def windows(self, rows: pa.Table, kept: pa.Table, gone: int) -> tuple[pa.Table, int]:
        """Place spans of rows into windows.

        Parameters
        ----------
        rows
            With the columns ``start``, ``end`` and ``arrived``.
        kept
            The windows that there are, with the columns ``start`` and ``end``.
        gone
            Windows that end at this time or before are freed.

        Returns
        -------
        tuple
            The rows, once for each window that is not gone, and once for the last window if all
            are; and how many of those that arrived lost some of their windows.
        """


class PaneSpans:
    """Panes, the times between two starts or ends of windows that follow one another.

    The rows of a pane are in the same windows.
    """

    def __init__(self, assigner: SlidingWindows) -> None:
        self._size, self._slide = assigner.size_ms, assigner.slide_ms
        self._offset = assigner.offset_ms

    def of_rows(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Return the starts of panes, and the ends of their last windows."""
        panes = times - (times - self._offset) % gcd(self._size, self._slide)
        return panes, panes - (panes - self._offset) % self._slide + self._size

    def breaks(self, keys: Numbers, starts: Numbers, ends: Numbers) -> Breaks:  # noqa: ARG002
        """Mark where another pane or window begins, by key and start."""
        return _differ(keys) | _differ(starts)

    def windows(self, rows: pa.Table, kept: pa.Table, gone: int) -> tuple[pa.Table, int]:  # noqa: ARG002
        """Repeat panes for each of their windows that is not gone."""
        panes, last_ends = numbers(rows["start"]), numbers(rows["end"])
        # The least end of a window that contains the pane, and of one that is not gone, too.
        first = last_ends - (last_ends - panes - 1) // self._slide * self._slide
        least = np.maximum(first, gone + 1)
        counts = np.maximum((last_ends - least) // self._slide + 1, 1)
        at = np.repeat(np.arange(len(counts)), counts)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        ends = last_ends[at] - nth * self._slide
        placed = rows.drop_columns(["start", "end"]).take(at)
        placed = placed.append_column("start", pa.array(ends - self._size))
        partially = (first <= gone) & (last_ends > gone)
        return placed.append_column("end", pa.array(ends)), int(
            numbers(rows["arrived"])[partially].sum()
        )


class LocalDaySpans:
    """Windows of local days, of which a row is in one."""

    def __init__(self, assigner: LocalDayWindows) -> None:
        self._window_of = assigner.window_of

    def of_rows(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Return the windows of rows; a zone is asked once for each window."""
        left, found = np.unique(times), list[tuple[int, int]]()
        while len(left):
            found.append(self._window_of(int(left[0])))
            left = left[np.searchsorted(left, found[-1][1]) :]
        starts, ends = np.array(found, np.int64).reshape(-1, 2).T
        at = np.searchsorted(starts, times, side="right") - 1
        return starts[at], ends[at]

    def breaks(self, keys: Numbers, starts: Numbers, ends: Numbers) -> Breaks:  # noqa: ARG002
        """Mark where another window begins, by key and start."""
        return _differ(keys) | _differ(starts)

    def windows(self, rows: pa.Table, kept: pa.Table, gone: int) -> tuple[pa.Table, int]:  # noqa: ARG002
        """Let rows of days that have windows join these as they are.

        A newer database of time zones, after a restart, may begin and end these days elsewhere.
        """
        starts, first = np.unique(numbers(kept["start"]), return_index=True)
        ends = numbers(kept["end"])[first]
        by_now, _ = self.of_rows((starts + ends) // 2)
        opened = dict(zip(by_now.tolist(), zip(starts, ends, strict=True), strict=True))
        days, first, at = np.unique(
            numbers(rows["start"]), return_index=True, return_inverse=True
        )
        spans = zip(days, numbers(rows["end"])[first], strict=True)
        placed = np.array([opened.get(span[0], span) for span in spans], np.int64)
        named = {"start": placed[at, 0], "end": placed[at, 1]}
        others = rows.drop_columns(list(named))
        for name, times in named.items():
            others = others.append_column(name, pa.array(times))
        return others, 0


class SessionSpans:
    """Sessions: a row makes one of its own, and those of a key that overlap or touch are one."""

    def __init__(self, gap_ms: int) -> None:
        self._gap = gap_ms

    def of_rows(self, times: Numbers) -> tuple[Numbers, Numbers]:
        """Return the sessions of single rows."""
        return times, times + self._gap

    def breaks(self, keys: Numbers, starts: Numbers, ends: Numbers) -> Breaks:
        """Begin a session where all before it in its key have ended."""
        other_key = _differ(keys)
        # The running maximum of ends within each key: among ranks, which the key's number leads.
        distinct, ranks = np.unique(ends, return_inverse=True)
        leading = (np.cumsum(other_key) - 1) * len(distinct) + ranks
        latest = distinct[np.maximum.accumulate(leading) % max(len(distinct), 1)]
        other_key[1:] |= starts[1:] > latest[:-1]
        return other_key

    def windows(self, rows: pa.Table, kept: pa.Table, gone: int) -> tuple[pa.Table, int]:  # noqa: ARG002
        """Return the rows: each is in one session, which is gone or not as a whole."""
        return rows, 0


def spans_of(assigner: Assigner) -> Spans:
    """Return the spans of an assigner's windows."""
    if isinstance(assigner, SlidingWindows):
        return PaneSpans(assigner)
    if isinstance(assigner, LocalDayWindows):
        return LocalDaySpans(assigner)
    return SessionSpans(assigner.gap_ms)


def _differ(values: Numbers) -> Breaks:
    """Return which values differ from the one before; the first does."""
    differ = np.ones(len(values), np.bool_)
    differ[1:] = values[1:] != values[:-1]
    return differ
