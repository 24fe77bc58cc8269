"""The operator of processors over packed rows."""

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

from spark_source.arrow_values import to_python
from spark_source.errors import OutputError
from spark_source.operators.bucket import HostedStep
from spark_source.operators.outputs import LATE
from spark_source.processing import EventTimeProcessor, ProcessOperator, ProcessStep
from spark_source.processing.process import AtEnd

MAIN = "main"


class HostedProcessor:
    """Runs the pure operator, from Arrow to Arrow.

    Parameters
    ----------
    processor, columns, at_end
        See `ProcessOperator`.
    schema
        Of the rows that come out: ``output``, and a struct for each output.
    """

    def __init__(
        self,
        processor: EventTimeProcessor,
        *,
        columns: Sequence[str],
        at_end: AtEnd,
        schema: pa.Schema,
    ) -> None:
        self._operator = ProcessOperator(processor, columns=columns, at_end=at_end)
        self._schema = schema

    def step(self, state: bytes | None, bound: int | None, rows: pa.Table) -> HostedStep:
        """Run a step of the pure operator."""
        # Columns first: a value at a time costs a microsecond each.
        step = self._operator.step(
            state, bound, zip(*map(to_python, rows.columns), strict=True)
        )
        counts = {
            "late": len(step.late),
            "keys": step.keys,
            "buffered": step.buffered,
            "timers": step.timers,
        }
        out = pa.concat_tables([self._schema.empty_table(), *self._tables(step)])
        return HostedStep(state=step.state, next_bound=step.next_bound, out=out, counts=counts)

    def _tables(self, step: ProcessStep) -> Iterator[pa.Table]:
        """Make a table for each output that has rows."""
        outputs = {MAIN: step.out, **step.side, LATE: step.late}
        for name, rows in outputs.items():
            if rows:
                yield self._table(name, rows)

    def _table(self, name: str, rows: list[tuple[Any, ...]]) -> pa.Table:
        at = self._schema.get_field_index(name)
        if at < 0:
            raise OutputError(name, "the processor emits to it and declares no columns of it")
        columns = [pa.nulls(len(rows), field.type) for field in self._schema]
        columns[0] = pa.repeat(pa.scalar(name), len(rows))
        columns[at] = _structs(name, rows, self._schema.field(at).type)
        return pa.Table.from_arrays(columns, schema=self._schema)


def _structs(name: str, rows: list[tuple[Any, ...]], kind: pa.StructType) -> pa.Array:
    for row in rows:
        if len(row) != kind.num_fields:
            declared = ", ".join(field.name for field in kind)
            raise OutputError(name, f"{row!r} was emitted, and its columns are {declared}")
    columns = [
        _array(name, field, values)
        for field, values in zip(kind, zip(*rows, strict=True), strict=True)
    ]
    return pa.StructArray.from_arrays(columns, fields=list(kind))


def _array(name: str, field: pa.Field, values: Sequence[Any]) -> pa.Array:
    try:
        return pa.array(values, field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise OutputError(name, f"column {field.name!r} is {field.type}: {error}") from error
