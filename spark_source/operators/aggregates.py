"""Aggregates over whole columns of Arrow: what is kept of rows, merged, and said of them."""

import pickle
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from spark_source.arrow_values import to_python
from spark_source.operators.window_errors import AggregateTypeError
from spark_source.operators.window_rows import Column, one_chunk
from spark_source.processing.aggregates import Aggregate, BuiltIn


@dataclass(frozen=True, slots=True)
class _Part:
    """A column of an accumulator.

    Attributes
    ----------
    type
        Of its values.
    merge
        The function of Arrow that merges the values of a group.
    zero
        The value over no rows.
    """

    type: pa.DataType
    merge: str
    zero: object = None


class _Columns(ABC):
    """An aggregate whose accumulators are columns."""

    parts: Sequence[_Part]

    @abstractmethod
    def lift(self, rows: pa.Table) -> list[pa.Array]:
        """Make the accumulators of single rows, a column for each part."""

    @abstractmethod
    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:
        """Return what accumulators say, in a type that can be cast to the given one."""


class _CountColumns(_Columns):
    parts = (_Part(pa.int64(), "sum", zero=0),)

    def lift(self, rows: pa.Table) -> list[pa.Array]:
        return [pa.repeat(pa.scalar(1, pa.int64()), len(rows))]

    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:  # noqa: ARG002
        return parts[0]


class _ValueColumns(_Columns):
    """An aggregate whose accumulator is a value itself."""

    def __init__(self, column: str, value_type: pa.DataType, merge: str) -> None:
        self.parts = (_Part(value_type, merge),)
        self._column = column

    def lift(self, rows: pa.Table) -> list[pa.Array]:
        return [rows[self._column].cast(self.parts[0].type)]

    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:  # noqa: ARG002
        return parts[0]


class _FloatMaxColumns(_Columns):
    """The maximum of floats: NaN, which Arrow passes over, is the greatest of them."""

    def __init__(self, column: str, value_type: pa.DataType) -> None:
        self.parts = _Part(value_type, "max"), _Part(pa.bool_(), "max")
        self._column = column

    def lift(self, rows: pa.Table) -> list[pa.Array]:
        return [rows[self._column], pc.is_nan(rows[self._column])]

    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:  # noqa: ARG002
        greatest, has_nan = parts
        nan = pa.scalar(float("nan"), self.parts[0].type)
        return pc.if_else(has_nan, nan, greatest)


class _MeanColumns(_Columns):
    def __init__(self, column: str, sum_type: pa.DataType) -> None:
        self.parts = _Part(sum_type, "sum"), _Part(pa.int64(), "sum", zero=0)
        self._column = column

    def lift(self, rows: pa.Table) -> list[pa.Array]:
        values = rows[self._column]
        return [values.cast(self.parts[0].type), pc.is_valid(values).cast(pa.int64())]

    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:  # noqa: ARG002
        # The total over nothing is null, so nothing is divided by 0.
        totals, counts = (part.cast(pa.float64()) for part in parts)
        return pc.divide(totals, counts)


class _OwnColumns(_Columns):
    """An aggregate of the user's own: an accumulator is a cell, which Python merges."""

    def __init__(self, aggregate: Aggregate) -> None:
        self._aggregate = aggregate
        self.parts = (_Part(pa.binary(), "list", zero=_to_cell(aggregate.zero())),)

    def lift(self, rows: pa.Table) -> list[pa.Array]:
        one = self._aggregate
        values = repeat(None, len(rows)) if one.column is None else to_python(rows[one.column])
        return [
            pa.array([_to_cell(one.add(one.zero(), value)) for value in values], pa.binary())
        ]

    def result(self, parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:
        results = [self._aggregate.result(_from_cell(cell)) for cell in parts[0].to_pylist()]
        if pa.types.is_floating(result_type):
            # Arrow takes no decimals for floats.
            results = [None if result is None else float(result) for result in results]
        return pa.array(results, result_type)

    def merge(self, groups: pa.ChunkedArray) -> pa.Array:
        """Merge the cells of each group."""
        return pa.array([self._merged(cells) for cells in groups.to_pylist()], pa.binary())

    def _merged(self, cells: Sequence[bytes]) -> bytes:
        if len(cells) == 1:
            return cells[0]
        return _to_cell(reduce(self._aggregate.merge, map(_from_cell, cells)))


def _to_cell(accumulator: object) -> bytes:
    """Write an accumulator, which may be any Python value; see `blobs`."""
    return pickle.dumps(accumulator, protocol=5)


def _from_cell(cell: bytes) -> Any:  # noqa: ANN401 (the aggregate's own)
    return pickle.loads(cell)  # noqa: S301 (the query's own state)


def _columns_of(aggregate: Aggregate | BuiltIn, schema: pa.Schema) -> _Columns:
    if not isinstance(aggregate, BuiltIn):
        return _OwnColumns(aggregate)
    column, kind = aggregate.column, aggregate.kind
    if column is None:
        return _CountColumns()
    value_type = schema.field(column).type
    if kind == "mean":
        return _MeanColumns(column, _sum_type(value_type))
    if kind == "sum":
        return _ValueColumns(column, _sum_type(value_type), merge="sum")
    if kind == "max" and pa.types.is_floating(value_type):
        return _FloatMaxColumns(column, value_type)
    return _ValueColumns(column, value_type, merge="max" if kind == "max" else "min")


def _sum_type(value_type: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(value_type):
        return pa.decimal128(38, value_type.scale)
    if pa.types.is_floating(value_type):
        return pa.float64()
    # Arrow wraps sums of 64 bits that overflow; those of decimals cannot get that large.
    return pa.decimal128(38, 0) if value_type.bit_width == 64 else pa.int64()


class ArrowAggregates:
    """The aggregates of a query, each as columns ``part…`` of a table.

    Parameters
    ----------
    aggregates
        By the names of their columns in the output.
    schema
        Of the rows.
    """

    def __init__(
        self, aggregates: Mapping[str, Aggregate | BuiltIn], schema: pa.Schema
    ) -> None:
        self._columns = [_columns_of(one, schema) for one in aggregates.values()]
        names = iter(range(len(self._columns) * 2))
        self._names = [[f"part{next(names)}" for _ in one.parts] for one in self._columns]
        self._parts = {
            name: part
            for one, names in zip(self._columns, self._names, strict=True)
            for name, part in zip(names, one.parts, strict=True)
        }

    @property
    def fields(self) -> list[pa.Field]:
        """The columns of accumulators."""
        return [pa.field(name, part.type) for name, part in self._parts.items()]

    def lift(self, rows: pa.Table) -> dict[str, pa.Array]:
        """Make the accumulators of single rows."""
        return {
            name: part
            for one, names in zip(self._columns, self._names, strict=True)
            for name, part in zip(names, one.lift(rows), strict=True)
        }

    def merge(self, table: pa.Table, by: str, others: Mapping[str, str]) -> pa.Table:
        """Merge the accumulators of groups.

        Parameters
        ----------
        table
            With columns of accumulators.
        by
            The column that the rows of a group have in common.
        others
            More columns, and the functions of Arrow that merge them.
        """
        merges = {**others, **{name: part.merge for name, part in self._parts.items()}}
        # Threads cost more than they give here, and Spark has as many tasks as cores.
        grouped = table.group_by(by, use_threads=False).aggregate(list(merges.items()))
        merged = {by: grouped[by]}
        merged |= {name: grouped[f"{name}_{merge}"] for name, merge in merges.items()}
        for one, names in zip(self._columns, self._names, strict=True):
            if isinstance(one, _OwnColumns):
                merged |= {name: one.merge(merged[name]) for name in names}
        return pa.table(merged)

    def zeros(self, count: int) -> dict[str, pa.Array]:
        """Make accumulators of no rows."""
        return {
            name: pa.repeat(pa.scalar(part.zero, part.type), count)
            for name, part in self._parts.items()
        }

    def results(self, table: pa.Table, result_type: pa.StructType) -> pa.StructArray:
        """Return what the accumulators say, a field for each aggregate."""
        fields = list(result_type)
        columns = [
            _result(one, [table[name] for name in names], field)
            for one, names, field in zip(self._columns, self._names, fields, strict=True)
        ]
        return pa.StructArray.from_arrays(columns, fields=fields)


def _result(one: _Columns, parts: Sequence[pa.Array], field: pa.Field) -> pa.Array:
    try:
        return one_chunk(one.result(parts, field.type).cast(field.type))
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise AggregateTypeError(field.name, str(field.type)) from error
