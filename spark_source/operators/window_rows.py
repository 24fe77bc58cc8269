"""Rows of windows in Arrow: what comes in, and what comes out of a step."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from spark_source.operators.packing import KEY, OFFSET, SEGMENT, TIME
from spark_source.processing import MissingEventTimeError
from tidegauge.event_time import END_OF_TIME

LATE_BELOW = "late_below"
"""The bound that the source has promised before the batch; rows may be without it."""

Numbers: TypeAlias = npt.NDArray[np.int64]
Column: TypeAlias = pa.Array | pa.ChunkedArray


def numbers(column: Column) -> Numbers:
    """Look at integers or times without nulls as numbers."""
    found: Numbers = one_chunk(column).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return found


def one_chunk(column: Column) -> pa.Array:
    """Return a column in one piece, as structs are made of."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def refuse_missing_times(rows: pa.Table) -> None:
    """Raise `MissingEventTimeError` if a row has no event time."""
    if rows[TIME].null_count:
        at = pc.index(pc.is_null(rows[TIME]), True).as_py()
        raise MissingEventTimeError(rows[SEGMENT][at].as_py(), rows[OFFSET][at].as_py())


@dataclass(frozen=True, slots=True)
class WindowSchemas:
    """What comes in and out.

    Attributes
    ----------
    rows
        Key, event time in microseconds, segment, offset, columns, and perhaps `LATE_BELOW`.
    shown
        The columns that late rows show besides the first four.
    output
        ``output``; a struct ``result`` of key, window, aggregates, kind, pane and its index;
        and a struct ``late`` of key, event time, segment, offset, columns and how late in ms.
    """

    rows: pa.Schema
    shown: Sequence[str]
    output: pa.Schema

    @property
    def values(self) -> pa.StructType:
        """The results of the aggregates."""
        return pa.struct(self._fields("result")[2:-3])

    def row(self, rows: pa.Table) -> pa.StructArray:
        """Put what late rows show into one column, but for how late they are."""
        shown = [rows[name] for name in (SEGMENT, OFFSET, *self.shown)]
        columns = [rows[KEY], rows[TIME], *shown]
        return _struct(columns, self._fields("late")[:-1])

    def late(self, rows: Column, bound: int | None) -> pa.Table:
        """Make the output of late rows, which `row` has made, of a step with a bound."""
        columns = one_chunk(rows).flatten()
        times = numbers(columns[1]) // 1_000
        late_by = np.full(len(times), END_OF_TIME)
        if bound is not None and bound != END_OF_TIME:
            late_by = bound - times
        return self._table("late", [*columns, pa.array(late_by)])

    def firings(
        self,
        *,
        key: Column,
        start_ms: Numbers,
        end_ms: Numbers,
        values: Column,
        kind: Column,
        pane: Column,
        pane_index: Column,
    ) -> pa.Table:
        """Make the output of firings."""
        window_fields = list(self._fields("result")[1].type)
        window = _struct([_timestamps(start_ms), _timestamps(end_ms)], window_fields)
        results = one_chunk(values).flatten()
        return self._table("result", [key, window, *results, kind, pane, pane_index])

    def _fields(self, output: str) -> list[pa.Field]:
        return list(self.output.field(output).type)

    def _table(self, output: str, columns: Sequence[Column]) -> pa.Table:
        rows = {output: _struct(columns, self._fields(output))}
        rows["output"] = pa.repeat(output, len(rows[output]))
        nothing = pa.nulls(len(rows[output]))
        filled = [rows.get(one.name, nothing).cast(one.type) for one in self.output]
        return pa.table(filled, schema=self.output)


def _struct(columns: Iterable[Column], fields: Sequence[pa.Field]) -> pa.StructArray:
    arrays = [
        one_chunk(column).cast(one.type) for column, one in zip(columns, fields, strict=True)
    ]
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _timestamps(times_ms: Numbers) -> pa.Array:
    return pa.array(times_ms * 1_000).cast(pa.timestamp("us"))
