"""Windows over whole columns of Arrow, all keys of a bucket at once.

Rows that are sure to be in the same windows are merged before anything is known of windows, on
the way to the operator already. `Spans` says which these are.

A table of windows has a row for each window of a key that is not freed. Times are in ms of event time.

| column | type | set by |
|---|---|---|
| ``key`` | of the rows | `combine`, in its canonical form |
| ``start``, ``end`` | int64 | `Spans`, from the rows; `_merged` makes them wider (sessions) |
| ``unsaid`` | int64 | `_take` adds the rows that arrive, `_fire` sets 0: rows since the last result |
| ``pane_index`` | int64 | `_fire`: how many results it has given so far |
| ``part0``, … | of `ArrowAggregates` | `combine` lifts rows, `_merged` merges them |
| ``standing`` | list of structs | `_fire`, only with retractions: the results not taken back yet |

Within a step there are more: ``arrived`` counts the rows of the step in a window; ``row`` is what the
output of late rows shows, null where rows were merged, since these are never late; ``at`` is the place of
such a row in the step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.operators.aggregates import ArrowAggregates
from spark_source.operators.bucket import HostedStep
from spark_source.operators.packing import KEY, TIME, from_cell, to_cell
from spark_source.operators.spans import spans_of
from spark_source.operators.window_errors import BoundAheadError
from spark_source.operators.window_rows import (
    LATE_BELOW,
    Column,
    Numbers,
    WindowSchemas,
    numbers,
    one_chunk,
    refuse_missing_times,
)
from spark_source.options.times import GREATEST_TIME
from spark_source.processing import SlidingWindows, WindowSettings, blobs
from spark_source.processing.bounds import limit_of
from tidegauge.event_time import END_OF_TIME

Mask: TypeAlias = npt.NDArray[np.bool_]

# Beyond all times of Spark, and so far from overflow that such a time may be added.
_BEFORE_ALL, _AFTER_ALL = -(2**62), 2**62

# What firings are ordered by: the window that fires, then what is said of it.
_RANKS = dict.fromkeys(("has_key", "key", "by_rows", "fired"), "ascending")
_RANKS["kind"] = "descending"  # retractions before the result that takes their place
_RANKS |= dict.fromkeys(("end", "start"), "ascending")

# How the spans that become one are merged, besides accumulators and results that stand.
_MERGES = {"start": "min", "end": "max", "arrived": "sum", "unsaid": "sum", "pane_index": "max"}


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


class WindowOperator:
    """Aggregates the rows of a bucket by windows.

    Parameters
    ----------
    settings
        Of the query's windows.
    schemas
        Of rows and of the output.
    """

    def __init__(self, settings: WindowSettings, schemas: WindowSchemas) -> None:
        self._spans = spans_of(settings.assigner)
        self._delay = settings.assigner.closing_delay_ms
        self._lateness = min(settings.lateness_ms, _AFTER_ALL)
        self._discards = settings.accumulation == "discarding"
        self._retracts = settings.accumulation == "accumulating_and_retracting"
        self._fires_early = settings.trigger == "early"
        self._schemas = schemas
        self._aggregates = ArrowAggregates(settings.aggregates, schemas.rows)
        self._windows = self._schema_of_windows()
        # Windows of one size are kept without their ends.
        self._size, self._kept = None, self._windows
        if isinstance(settings.assigner, SlidingWindows):
            self._size = settings.assigner.size_ms
            self._kept = self._windows.remove(self._windows.get_field_index("end"))
        self._state_settings = {**settings.of_state(), "columns": str(self._kept)}

    def combine(self, rows: pa.Table) -> pa.Table:
        """Merge rows by key and span, but for those that may turn out to be late.

        Which these are is decided by the bound that the source has promised in each row; without
        that column, all rows are left alone.
        """
        refuse_missing_times(rows)
        starts, ends = self._spans.of_rows(numbers(rows[TIME]) // 1_000)
        # Timestamps come in the zone of the session, which may change while state is kept.
        keys = _canonical(rows[KEY].cast(self._windows.field(KEY).type))
        lifted = pa.table(
            {KEY: keys, "start": starts, "end": ends, "arrived": np.ones(len(ends), np.int64)}
            | self._aggregates.lift(rows)
        )
        safe = pa.array(self._safe(rows, ends))
        merged, _ = self._merged(lifted.filter(safe))
        alone = lifted.filter(pc.invert(safe))
        payload = self._schemas.row(rows.filter(pc.invert(safe)))
        both = [alone.append_column("row", payload), merged]
        return pa.concat_tables(both, promote_options="default")

    def step(self, state: bytes | None, bound: int | None, rows: pa.Table) -> HostedStep:
        """Raise the bound, and take rows that `combine` has returned."""
        bound_before, windows = self._restore(state)
        closed_before = _clipped(limit_of(bound_before) - self._delay)
        closed = _clipped(limit_of(bound) - self._delay)
        gone = _clipped(limit_of(bound) - self._delay - self._lateness)
        step = _Step(bound, closed_before, closed, gone)
        windows = self._advance(windows, step)
        if rows.num_rows:
            windows = self._take(windows, rows, step)
        return self._finish(windows, step)

    def _schema_of_windows(self) -> pa.Schema:
        key = self._schemas.rows.field(KEY)
        counters = ("start", "end", "unsaid", "pane_index")
        standing = pa.struct(
            {
                "start": pa.int64(),
                "end": pa.int64(),
                "pane": pa.string(),
                "pane_index": pa.int64(),
                "values": self._schemas.values,
            }
        )
        return pa.schema(
            [
                key,
                *((name, pa.int64()) for name in counters),
                *self._aggregates.fields,
                *([("standing", pa.list_(standing))] if self._retracts else []),
            ]
        )

    def _safe(self, rows: pa.Table, ends: Numbers) -> Mask:
        """Return for which rows it is sure that their last window is not gone."""
        if LATE_BELOW not in rows.column_names:
            return np.zeros(len(ends), np.bool_)
        # Without a promise there is no bound yet. Timestamps of Spark are in microseconds.
        promised = (
            numbers(pc.fill_null(rows[LATE_BELOW].cast(pa.int64()), _BEFORE_ALL)) // 1_000
        )
        kept_until = ends + (self._delay + self._lateness)
        # At the end of time all windows are freed, whatever the lateness.
        safe: Mask = (kept_until > promised) & (promised < GREATEST_TIME)
        return safe

    def _merged(self, spans: pa.Table) -> tuple[pa.Table, Numbers]:
        """Merge the spans that are one; return for each, too, which one it became."""
        keys = numbers(one_chunk(spans[KEY]).dictionary_encode("encode").indices)
        starts, ends = numbers(spans["start"]), numbers(spans["end"])
        order = np.lexsort((starts, keys))
        breaks = self._spans.breaks(keys[order], starts[order], ends[order])
        numbered = np.cumsum(breaks) - 1
        ordered = spans.take(order)
        merged = self._aggregates.merge(
            ordered.append_column("number", pa.array(numbered)),
            by="number",
            others={name: how for name, how in _MERGES.items() if name in spans.column_names},
        )
        number = merged["number"]
        first = pa.array(np.flatnonzero(breaks))
        columns = {KEY: ordered[KEY].take(first.take(number))} | _columns(merged)
        del columns["number"]
        if "standing" in spans.column_names:
            standing = _joined(one_chunk(ordered["standing"]), breaks)
            columns["standing"] = standing.take(number)
        became = np.empty_like(numbered)
        became[order] = numbered
        return pa.table(columns), became

    def _advance(self, windows: pa.Table, step: _Step) -> pa.Table:
        """Fire the windows that close now, then free those that are gone."""
        ends = numbers(windows["end"])
        closing = (ends > step.closed_before) & (ends <= step.closed)
        if self._discards:
            closing &= numbers(windows["unsaid"]) > 0
        windows = self._fire(windows, closing, step, by_rows=False)
        return windows.filter(pc.greater(windows["end"], step.gone))

    def _take(self, windows: pa.Table, rows: pa.Table, step: _Step) -> pa.Table:
        """Add rows to their windows, and fire those of them that have closed already."""
        numbered = rows.drop_columns("row").append_column("at", pa.array(range(len(rows))))
        placed, step.partially_late = self._spans.windows(numbered, windows, step.gone)
        nothing = pa.repeat(0, len(placed))
        arrived = placed.append_column("unsaid", placed["arrived"])
        arrived = arrived.append_column("pane_index", nothing).drop_columns("at")
        kept = windows.append_column("arrived", pa.repeat(0, len(windows)))
        both = pa.concat_tables([kept, arrived], promote_options="default")
        merged, became = self._merged(both)
        gone = numbers(merged["end"]) <= step.gone
        if gone.any():
            late = numbers(placed["at"])[gone[became[len(windows) :]]]
            late_rows = rows["row"].take(pa.array(late))
            if late_rows.null_count:
                raise BoundAheadError
            step.late, step.late_rows = len(late), self._schemas.late(late_rows, step.bound)
            merged = merged.filter(pa.array(~gone))
        fires = numbers(merged["arrived"]) > 0
        if not self._fires_early:
            fires &= numbers(merged["end"]) <= step.closed
        return self._fire(merged.select(self._windows.names), fires, step, by_rows=True)

    def _fire(self, windows: pa.Table, fires: Mask, step: _Step, *, by_rows: bool) -> pa.Table:
        """Let windows say what is in them, because they close or by the rows of the step."""
        if not fires.any():
            return windows
        firing = windows.filter(pa.array(fires))
        closed = pc.less_equal(firing["end"], step.closed)
        result = {
            "start": firing["start"],
            "end": firing["end"],
            "pane": pc.if_else(closed, "late" if by_rows else "on_time", "early"),
            "pane_index": firing["pane_index"],
            "values": self._aggregates.results(firing, self._schemas.values),
        }
        step.firings.append(self._said(firing, "result", result, by_rows=by_rows))
        changes = {
            "unsaid": pa.repeat(0, len(firing)),
            "pane_index": pc.add(firing["pane_index"], 1),
        }
        if self._discards:
            changes |= self._aggregates.zeros(len(firing))
        if self._retracts:
            step.firings.append(self._retractions(firing, by_rows=by_rows))
            arrays = [one_chunk(column) for column in result.values()]
            standing = pa.StructArray.from_arrays(arrays, fields=list(self._standing))
            changes["standing"] = pa.ListArray.from_arrays(range(len(firing) + 1), standing)
        fired = pa.table(_columns(firing) | changes).cast(self._windows)
        return pa.concat_tables([windows.filter(pa.array(~fires)), fired])

    @property
    def _standing(self) -> pa.StructType:
        return self._windows.field("standing").type.value_type

    def _retractions(self, firing: pa.Table, *, by_rows: bool) -> pa.Table:
        """Take back what windows, and those merged into them, have said last."""
        standing = one_chunk(firing["standing"])
        results = standing.flatten()
        said = {one.name: results.field(at) for at, one in enumerate(self._standing)}
        of = firing.take(pc.list_parent_indices(standing))
        return self._said(of, "retraction", said, by_rows=by_rows)

    def _said(
        self, windows: pa.Table, kind: str, said: Mapping[str, Column], *, by_rows: bool
    ) -> pa.Table:
        kinds = pa.repeat(kind, len(windows))
        firings = self._schemas.firings(
            key=windows[KEY],
            start_ms=numbers(said["start"]),
            end_ms=numbers(said["end"]),
            values=said["values"],
            kind=kinds,
            pane=said["pane"],
            pane_index=said["pane_index"],
        )
        ranks = {
            # Null is the first key. Closed windows begin before open ones, so late firings come
            # before early ones.
            "has_key": pc.is_valid(windows[KEY]),
            "key": windows[KEY],
            "by_rows": pa.repeat(by_rows, len(windows)),
            "fired": windows["start"],
            "kind": kinds,
            "end": said["end"],
            "start": said["start"],
        }
        for name in _RANKS:
            firings = firings.append_column(name, ranks[name])
        return firings

    def _restore(self, state: bytes | None) -> tuple[int | None, pa.Table]:
        if state is None:
            return None, self._windows.empty_table()
        bound, cell = blobs.restore(state, self._state_settings)
        windows = from_cell(cell)
        if self._size is not None:
            ends = pc.add(windows["start"], self._size)
            windows = windows.append_column("end", ends).select(self._windows.names)
        return bound, windows

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
        table = to_cell(windows.select(self._kept.names).combine_chunks())
        blob = blobs.save(self._state_settings, (step.bound, table))
        due = self._next_bound(numbers(windows["end"]), step)
        return HostedStep(state=blob, next_bound=due, out=out, counts=counts)

    def _ordered(self, step: _Step) -> list[pa.Table]:
        """Order firings by key, on time before late before early, retractions before results."""
        if not step.firings:
            return []
        firings = pa.concat_tables(step.firings)
        order = pc.sort_indices(firings, sort_keys=list(_RANKS.items()))
        return [firings.take(order).drop_columns(list(_RANKS))]

    def _next_bound(self, ends: Numbers, step: _Step) -> int:
        closed = ends <= step.closed
        due = END_OF_TIME
        if closed.any():
            due = min(due, int(ends[closed].min()) + self._delay + self._lateness)
        if not closed.all():
            due = min(due, int(ends[~closed].min()) + self._delay)
        return due


def _canonical(keys: Column) -> Column:
    """Return keys in the form that `spark_source.processing.keys` describes."""
    if not pa.types.is_floating(keys.type):
        return keys
    zero, nan = (pa.scalar(value, keys.type) for value in (0.0, float("nan")))
    return pc.if_else(pc.is_nan(keys), nan, pc.add(keys, zero))


def _columns(table: pa.Table) -> dict[str, Column]:
    return dict(zip(table.column_names, table.columns, strict=True))


def _joined(lists: pa.ListArray, breaks: Mask) -> pa.ListArray:
    """Join lists that follow one another, from each break to the next; null is an empty one."""
    lengths = numbers(pc.fill_null(pc.list_value_length(lists), 0))
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    firsts = np.append(np.flatnonzero(breaks), len(lengths))
    return pa.ListArray.from_arrays(pa.array(offsets[firsts], pa.int32()), lists.flatten())


def _clipped(time: float) -> int:
    """Turn what times are compared with into an integer that Arrow and NumPy can hold."""
    return int(min(max(time, _BEFORE_ALL), _AFTER_ALL))
