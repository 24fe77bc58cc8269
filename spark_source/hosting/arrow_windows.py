"""Tumbling and sliding windows over whole columns of Arrow.

This is `WindowOperator` for the built-in aggregates, all keys of a bucket at once. The rows of a
*pane*, the time between two starts or ends of windows that follow one another, are in the same
windows. So rows are merged by key and pane before anything is known of windows, on the way to
the operator already.
"""

from dataclasses import dataclass, field
from math import gcd
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_source._times import GREATEST_TIME
from spark_source.hosting.arrow_aggregates import ArrowAggregates
from spark_source.hosting.bucket import HostedStep
from spark_source.hosting.packing import KEY, TIME, from_cell, to_cell
from spark_source.hosting.window_errors import BoundAheadError
from spark_source.hosting.window_rows import (
    LATE_BELOW,
    Column,
    Numbers,
    WindowSchemas,
    numbers,
    refuse_missing_times,
)
from spark_source.processing import SlidingWindows, WindowSettings, blobs
from spark_source.processing.bounds import limit_of
from tidegauge.event_time import END_OF_TIME

Mask: TypeAlias = npt.NDArray[np.bool_]

# Beyond all times of Spark, and so far from overflow that such a time may be added.
_BEFORE_ALL, _AFTER_ALL = -(2**62), 2**62

# What firings are ordered by.
_RANKS = dict.fromkeys(("has_key", "key", "by_rows", "start"), "ascending")
_RANKS["kind"] = "descending"  # a retraction before the result that takes its place


@dataclass(slots=True)
class _Step:
    """A step that goes on.

    Attributes
    ----------
    bound
        Of the step.
    closed_before, closed, gone
        Windows that end at these times or before had closed before the step, close in it at the
        latest, and are freed.
    firings, late_rows
        What goes to the output; the former with two columns to order them by.
    late, partially_late
        How many rows are in no window any more, or not in all of theirs.
    """

    bound: int | None
    closed_before: int
    closed: int
    gone: int
    firings: list[pa.Table] = field(default_factory=list)
    late_rows: pa.Table | None = None
    late: int = 0
    partially_late: int = 0


class ArrowWindows:
    """Aggregates the rows of a bucket by windows.

    Parameters
    ----------
    settings
        With `SlidingWindows` and built-in aggregates.
    schemas
        Of rows and of the output.
    """

    def __init__(self, settings: WindowSettings, schemas: WindowSchemas) -> None:
        assigner = settings.assigner
        assert isinstance(assigner, SlidingWindows)  # noqa: S101 (for the type checker)
        self._size, self._slide = assigner.size_ms, assigner.slide_ms
        self._offset = assigner.offset_ms
        self._lateness = min(settings.lateness_ms, _AFTER_ALL)
        self._discards = settings.accumulation == "discarding"
        self._retracts = settings.accumulation == "accumulating_and_retracting"
        self._fires_early = settings.trigger == "early"
        self._schemas = schemas
        self._aggregates = ArrowAggregates(settings.aggregates, schemas.rows)
        self._kept = self._schema_of_windows()
        self._state_settings = {**settings.of_state(), "columns": str(self._kept)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """Merge rows by key and pane, but for those that may turn out to be late.

        Which these are is told by the bound that the source has promised in each row; without
        that column, all rows are left alone.
        """
        refuse_missing_times(rows)
        times = numbers(rows[TIME])
        panes = times - (times - self._offset) % gcd(self._size, self._slide)
        # Timestamps come in the zone of the session, which may change while state is kept.
        keys = rows[KEY].cast(self._kept.field(KEY).type)
        lifted = pa.table(
            {KEY: keys, "pane": panes, "arrived": np.ones(len(panes), np.int64)}
            | self._aggregates.lift(rows)
        )
        safe = pa.array(self._safe(rows, self._last_starts(panes)))
        merged = self._aggregates.merge(
            lifted.filter(safe), by=[KEY, "pane"], others={"arrived": "sum"}
        )
        alone = lifted.filter(pc.invert(safe))
        payload = self._schemas.row(rows.filter(pc.invert(safe)))
        both = [alone.append_column("row", payload), merged]
        return pa.concat_tables(both, promote_options="default")

    def step(self, state: bytes | None, bound: int | None, rows: pa.Table) -> HostedStep:
        """Raise the bound, and take rows that `combine` has returned."""
        bound_before, windows = self._restore(state)
        closed = _clipped(limit_of(bound))
        gone = _clipped(limit_of(bound) - self._lateness)
        step = _Step(bound, _clipped(limit_of(bound_before)), closed, gone)
        windows = self._advance(windows, step)
        if rows.num_rows:
            windows = self._take(windows, rows, step)
        return self._finish(windows, step)

    def _schema_of_windows(self) -> pa.Schema:
        key = self._schemas.rows.field(KEY)
        counters = [(name, pa.int64()) for name in ("start", "unsaid", "pane_index")]
        said = [("said_pane", pa.string()), ("said", self._schemas.values)]
        return pa.schema(
            [key, *counters, *self._aggregates.fields, *(said if self._retracts else [])]
        )

    def _safe(self, rows: pa.Table, last_starts: Numbers) -> Mask:
        """Tell for which rows it is sure that their last window is not gone."""
        if LATE_BELOW not in rows.column_names:
            return np.zeros(len(last_starts), np.bool_)
        # Without a promise there is no bound yet. Timestamps of Spark are in microseconds.
        promised = (
            numbers(pc.fill_null(rows[LATE_BELOW].cast(pa.int64()), _BEFORE_ALL)) // 1_000
        )
        kept_until = last_starts + (self._size + self._lateness)
        # At the end of time all windows are freed, whatever the lateness.
        safe: Mask = (kept_until > promised) & (promised < GREATEST_TIME)
        return safe

    def _last_starts(self, panes: Numbers) -> Numbers:
        return panes - (panes - self._offset) % self._slide

    def _ends(self, windows: pa.Table) -> Numbers:
        return numbers(windows["start"]) + self._size

    def _advance(self, windows: pa.Table, step: _Step) -> pa.Table:
        """Fire the windows that close now, then free those that are gone."""
        ends = self._ends(windows)
        closing = (ends > step.closed_before) & (ends <= step.closed)
        if self._discards:
            closing &= numbers(windows["unsaid"]) > 0
        windows = self._fire(windows, closing, step, by_rows=False)
        return windows.filter(pa.array(self._ends(windows) > step.gone))

    def _take(self, windows: pa.Table, rows: pa.Table, step: _Step) -> pa.Table:
        """Add rows to their windows, and fire those of them that have closed already."""
        panes = numbers(rows["pane"])
        last = self._last_starts(panes)
        late = last + self._size <= step.gone
        if late.any():
            self._put_aside(rows.filter(pa.array(late)), step)
        # The least start whose window ends after the pane begins.
        first = last - (last + self._size - 1 - panes) // self._slide * self._slide
        partially = ~late & (first + self._size <= step.gone)
        step.partially_late = int(numbers(rows["arrived"])[partially].sum())
        windows = self._merged(windows, self._assigned(rows, first, last, step))
        fires = numbers(windows["arrived"]) > 0
        if not self._fires_early:
            fires &= self._ends(windows) <= step.closed
        return self._fire(windows.drop_columns("arrived"), fires, step, by_rows=True)

    def _put_aside(self, late: pa.Table, step: _Step) -> None:
        if late["row"].null_count:
            raise BoundAheadError
        step.late = len(late)
        step.late_rows = self._schemas.late(late["row"], step.bound)

    def _assigned(self, rows: pa.Table, first: Numbers, last: Numbers, step: _Step) -> pa.Table:
        """Repeat rows for each of their windows that is not gone."""
        # Backwards from the last start, which is not gone if any is not.
        least = np.maximum(first, step.gone - self._size + 1)
        counts = np.maximum((last - least) // self._slide + 1, 0)
        at = np.repeat(np.arange(len(last)), counts)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = pa.array(last[at] - nth * self._slide)
        return rows.drop_columns(["pane", "row"]).take(at).append_column("start", starts)

    def _merged(self, windows: pa.Table, arrived: pa.Table) -> pa.Table:
        """Merge rows into windows that are kept and into new ones; say how many have arrived."""
        merged_names = [KEY, "start", *(one.name for one in self._aggregates.fields)]
        kept = windows.select(merged_names).append_column(
            "at", pa.array(np.arange(len(windows)))
        )
        both = pa.concat_tables([kept, arrived], promote_options="default")
        merged = self._aggregates.merge(
            both, by=[KEY, "start"], others={"at": "max", "arrived": "sum"}
        )
        # What else is kept of a window; null for a new one.
        others = windows.drop_columns(merged_names).take(merged["at"])
        counters = {name: pc.fill_null(others[name], 0) for name in ("unsaid", "pane_index")}
        arrived_now = pc.fill_null(merged["arrived"], 0)
        counters["unsaid"] = pc.add(counters["unsaid"], arrived_now)
        columns = _columns(merged) | _columns(others) | counters
        ordered = {name: columns[name] for name in self._kept.names}
        return pa.table({**ordered, "arrived": arrived_now})

    def _fire(self, windows: pa.Table, fires: Mask, step: _Step, *, by_rows: bool) -> pa.Table:
        """Let windows say what is in them, because they close or by the rows of the step."""
        if not fires.any():
            return windows
        firing = windows.filter(pa.array(fires))
        values = self._aggregates.results(firing, self._schemas.values)
        closed = pa.array(self._ends(firing) <= step.closed)
        pane = pc.if_else(closed, "late" if by_rows else "on_time", "early")
        step.firings.append(self._said(firing, "result", pane, values, by_rows=by_rows))
        changes = {
            "unsaid": pa.repeat(0, len(firing)),
            "pane_index": pc.add(firing["pane_index"], 1),
        }
        if self._discards:
            changes |= self._aggregates.zeros(len(firing))
        if self._retracts:
            step.firings.append(self._retractions(firing, by_rows=by_rows))
            changes |= {"said_pane": pane, "said": values}
        fired = pa.table(_columns(firing) | changes).cast(self._kept)
        return pa.concat_tables([windows.filter(pa.array(~fires)), fired])

    def _retractions(self, firing: pa.Table, *, by_rows: bool) -> pa.Table:
        """Take back what windows have said last; it counted the firings up by one."""
        stands = firing.filter(pc.is_valid(firing["said_pane"]))
        before = pc.subtract(stands["pane_index"], 1)
        stands = stands.set_column(
            stands.column_names.index("pane_index"), "pane_index", before
        )
        pane, values = stands["said_pane"], stands["said"]
        return self._said(stands, "retraction", pane, values, by_rows=by_rows)

    def _said(
        self, windows: pa.Table, kind: str, pane: Column, values: Column, *, by_rows: bool
    ) -> pa.Table:
        kinds = pa.repeat(kind, len(windows))
        firings = self._schemas.firings(
            key=windows[KEY],
            start_ms=numbers(windows["start"]),
            end_ms=self._ends(windows),
            values=values,
            kind=kinds,
            pane=pane,
            pane_index=windows["pane_index"],
        )
        # Null is the first key. Closed windows begin before open ones, so late firings come
        # before early ones.
        ranks = [pc.is_valid(windows[KEY]), windows[KEY], pa.repeat(by_rows, len(windows))]
        for name, rank in zip(_RANKS, [*ranks, windows["start"], kinds], strict=True):
            firings = firings.append_column(name, rank)
        return firings

    def _restore(self, state: bytes | None) -> tuple[int | None, pa.Table]:
        if state is None:
            return None, self._kept.empty_table()
        bound, windows = blobs.restore(state, self._state_settings)
        return bound, from_cell(windows)

    def _finish(self, windows: pa.Table, step: _Step) -> HostedStep:
        counts = {"late": step.late, "partially_late": step.partially_late}
        counts["windows"] = len(windows)
        late = [] if step.late_rows is None else [step.late_rows]
        out = pa.concat_tables(
            [self._schemas.output.empty_table(), *self._ordered(step), *late]
        )
        if not len(windows):
            return HostedStep(state=None, next_bound=None, out=out, counts=counts)
        # Each step divides the table into more pieces.
        table = to_cell(windows.combine_chunks())
        blob = blobs.save(self._state_settings, (step.bound, table))
        due = self._next_bound(windows, step)
        return HostedStep(state=blob, next_bound=due, out=out, counts=counts)

    def _ordered(self, step: _Step) -> list[pa.Table]:
        """Order firings by key, on time before late before early, retractions before results."""
        if not step.firings:
            return []
        firings = pa.concat_tables(step.firings)
        order = pc.sort_indices(firings, sort_keys=list(_RANKS.items()))
        return [firings.take(order).drop_columns(list(_RANKS))]

    def _next_bound(self, windows: pa.Table, step: _Step) -> int:
        ends = self._ends(windows)
        closed = ends <= step.closed
        due = END_OF_TIME
        if closed.any():
            due = min(due, int(ends[closed].min()) + self._lateness)
        if not closed.all():
            due = min(due, int(ends[~closed].min()))
        return due


def _columns(table: pa.Table) -> dict[str, Column]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _clipped(time: float) -> int:
    """Turn what times are compared with into an integer that Arrow and NumPy can hold."""
    return int(min(max(time, _BEFORE_ALL), _AFTER_ALL))
