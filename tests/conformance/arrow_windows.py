"""The operators of windows on Spark, in the words of the one without it."""

from typing import Any

import pyarrow as pa

from spark_source.operators.packing import KEY, OFFSET, SEGMENT, TIME, from_cell, to_cell
from spark_source.operators.window_rows import LATE_BELOW, WindowSchemas
from spark_source.operators.windows import WindowOperator
from spark_source.options.times import GREATEST_TIME
from spark_source.processing import WindowSettings
from spark_source.processing.keys import Row
from tests.window_model import Firing, WindowStep
from tidegauge.event_time import END_OF_TIME

_STRING = pa.string()
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_RESULTS = {name: pa.int64() for name in ("count", "sum", "min", "max")} | {
    "mean": pa.float64()
}


def schemas_of(
    value: pa.DataType, results: dict[str, pa.DataType], *, key: pa.DataType = _STRING
) -> WindowSchemas:
    """Make the schemas for one column, and aggregates by their names."""
    place = {"segment": pa.int64(), "offset": pa.int64()}
    said = {"kind": pa.string(), "pane": pa.string(), "pane_index": pa.int64()}
    window = pa.struct({"start": _TIMESTAMP, "end": _TIMESTAMP})
    late = {"key": key, "event_time": _TIMESTAMP, **place, "value": value}
    output = {
        "output": pa.string(),
        "result": pa.struct({"key": key, "window": window, **results, **said}),
        "late": pa.struct(late | {"late_by": pa.int64()}),
    }
    rows = {KEY: key, TIME: pa.int64(), SEGMENT: pa.int64(), OFFSET: pa.int64()}
    return WindowSchemas(pa.schema(rows | {"value": value}), ["value"], pa.schema(output))


class ArrowOperator:
    """Runs what runs on Spark, with rows and steps as `WindowModel` has them.

    Parameters
    ----------
    settings
        Of either operator.
    promised
        Whether rows carry the bound of their source.
    schemas
        For other rows than those of the vectors.
    """

    def __init__(
        self,
        settings: WindowSettings,
        *,
        promised: bool = False,
        schemas: WindowSchemas | None = None,
    ) -> None:
        self._schemas = schemas or schemas_of(pa.int64(), _RESULTS)
        self._operator = WindowOperator(settings, self._schemas)
        self._promised = promised

    def step(self, state: bytes | None, bound: int | None, rows: list[Row]) -> WindowStep:
        table = self._table_of(rows)
        if self._promised:
            table = table.append_column(LATE_BELOW, _promises(bound, len(table)))
        cell = to_cell(self._operator.combine(table))
        step = self._operator.step(state, bound, from_cell(cell) if rows else pa.table({}))
        shown = _in_numbers(step.out).to_pylist()
        assert step.counts["late"] == sum(row["output"] == "late" for row in shown)
        return WindowStep(
            state=step.state,
            next_bound=step.next_bound,
            out=[_firing(row) for row in shown if row["output"] == "result"],
            late=[_late(row) for row in shown if row["output"] == "late"],
            added=len(rows) - step.counts["late"],
            partially_late=step.counts["partially_late"],
            windows=step.counts["windows"],
        )

    def _table_of(self, rows: list[Row]) -> pa.Table:
        in_us = [(key, time and time * 1_000, *rest) for key, time, *rest in rows]
        columns = zip(*in_us, strict=True) if rows else [()] * len(self._schemas.rows)
        arrays = [
            pa.array(values, one.type)
            for values, one in zip(columns, self._schemas.rows, strict=True)
        ]
        return pa.table(arrays, schema=self._schemas.rows)


def _promises(bound: int | None, count: int) -> pa.Array:
    shown = GREATEST_TIME if bound == END_OF_TIME else bound
    times = pa.array([None if shown is None else shown * 1_000] * count, pa.int64())
    return times.cast(_TIMESTAMP)


def _in_numbers(out: pa.Table) -> pa.Table:
    """Show times as numbers, since Python has none before its first year."""
    return out.cast(pa.schema([(one.name, _numbered(one.type)) for one in out.schema]))


def _numbered(one: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(one):
        return pa.struct([(inner.name, _numbered(inner.type)) for inner in one])
    return pa.int64() if pa.types.is_timestamp(one) else one


def _firing(row: dict[str, Any]) -> Firing:
    key, window, *values, kind, pane, pane_index = row["result"].values()
    start, end = (time // 1_000 for time in window.values())
    return Firing(key, start, end, kind, pane, pane_index, tuple(values))


def _late(row: dict[str, Any]) -> Row:
    key, time, *others = row["late"].values()
    return key, time // 1_000, *others
