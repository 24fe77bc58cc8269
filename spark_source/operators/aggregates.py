"""Aggregates over whole columns of Arrow: what is kept of rows, merged, and said of them."""

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import count, repeat
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import DataType, DecimalType, DoubleType, FractionalType, LongType

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


@dataclass(frozen=True, slots=True)
class _Columns:
    """An aggregate whose accumulators are columns.

    Attributes
    ----------
    parts
        The columns.
    lift
        Makes the accumulators of single rows, a column for each part.
    result
        Makes what accumulators say, in a type that can be cast to the given one.
    merge
        Merges the cells of each group, where Arrow cannot.
    """

    parts: Sequence[_Part]
    lift: Callable[[pa.Table], list[pa.Array]]
    result: Callable[[Sequence[pa.Array], pa.DataType], Column] = lambda parts, _: parts[0]
    merge: Callable[[pa.ChunkedArray], pa.Array] | None = None


def _count(*_: object) -> _Columns:
    one = pa.scalar(1, pa.int64())
    return _Columns([_Part(one.type, "sum", zero=0)], lambda rows: [pa.repeat(one, len(rows))])


def _value(column: str, value_type: pa.DataType, merge: str) -> _Columns:
    """Keep a value itself."""
    return _Columns([_Part(value_type, merge)], lambda rows: [rows[column].cast(value_type)])


def _sum(column: str, value_type: pa.DataType) -> _Columns:
    return _value(column, _sum_type(value_type), "sum")


def _min(column: str, value_type: pa.DataType) -> _Columns:
    return _value(column, value_type, "min")


def _max(column: str, value_type: pa.DataType) -> _Columns:
    """Keep the maximum; NaN, which Arrow passes over, is the greatest of floats."""
    if not pa.types.is_floating(value_type):
        return _value(column, value_type, "max")
    nan = pa.scalar(float("nan"), value_type)
    return _Columns(
        [_Part(value_type, "max"), _Part(pa.bool_(), "max")],
        lambda rows: [rows[column], pc.is_nan(rows[column])],
        lambda parts, _: pc.if_else(parts[1], nan, parts[0]),
    )


def _mean(column: str, value_type: pa.DataType) -> _Columns:
    total = _sum_type(value_type)
    return _Columns(
        [_Part(total, "sum"), _Part(pa.int64(), "sum", zero=0)],
        lambda rows: [rows[column].cast(total), pc.is_valid(rows[column]).cast(pa.int64())],
        # The total over nothing is null, so nothing is divided by 0.
        lambda parts, _: pc.divide(*(part.cast(pa.float64()) for part in parts)),
    )


def _sum_type(value_type: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(value_type):
        return pa.decimal128(38, value_type.scale)
    if pa.types.is_floating(value_type):
        return pa.float64()
    # Arrow wraps sums of 64 bits that overflow; those of decimals cannot get that large.
    return pa.decimal128(38, 0) if value_type.bit_width == 64 else pa.int64()


def _result_of_sum(value_type: DataType) -> DataType:
    if isinstance(value_type, DecimalType):
        # As Spark's own sum.
        return DecimalType(min(value_type.precision + 10, 38), value_type.scale)
    return DoubleType() if isinstance(value_type, FractionalType) else LongType()


class BuiltInKind(NamedTuple):
    """What is to be known of a kind of `BuiltIn`.

    Attributes
    ----------
    columns
        Makes its columns, from the name and the type of the one that is aggregated.
    of_numbers
        Whether that has to be numeric, and not only of a type that has an order.
    result
        Of its type the type of the results, as SQL has it.
    """

    columns: Callable[..., _Columns]
    of_numbers: bool
    result: Callable[[DataType], DataType]


BUILT_INS: dict[str, BuiltInKind] = {
    "count": BuiltInKind(_count, False, lambda _: LongType()),
    "sum": BuiltInKind(_sum, True, _result_of_sum),
    "min": BuiltInKind(_min, False, lambda kind: kind),
    "max": BuiltInKind(_max, False, lambda kind: kind),
    "mean": BuiltInKind(_mean, True, lambda _: DoubleType()),
}


def _own(aggregate: Aggregate) -> _Columns:
    """Keep the accumulators of the user's own as cells, which Python merges."""
    column, zero = aggregate.column, aggregate.zero

    def lift(rows: pa.Table) -> list[pa.Array]:
        values = repeat(None, len(rows)) if column is None else to_python(rows[column])
        cells = [_to_cell(aggregate.add(zero(), value)) for value in values]
        return [pa.array(cells, pa.binary())]

    def result(parts: Sequence[pa.Array], result_type: pa.DataType) -> Column:
        results = [aggregate.result(_from_cell(cell)) for cell in parts[0].to_pylist()]
        if pa.types.is_floating(result_type):
            # Arrow takes no decimals for floats.
            results = [None if result is None else float(result) for result in results]
        return pa.array(results, result_type)

    def merged(cells: Sequence[bytes]) -> bytes:
        if len(cells) == 1:
            return cells[0]
        return _to_cell(reduce(aggregate.merge, map(_from_cell, cells)))

    def merge(groups: pa.ChunkedArray) -> pa.Array:
        return pa.array(map(merged, groups.to_pylist()), pa.binary())

    return _Columns([_Part(pa.binary(), "list", _to_cell(zero()))], lift, result, merge)


def _to_cell(accumulator: object) -> bytes:
    """Write an accumulator, which may be any Python value; see `blobs`."""
    return pickle.dumps(accumulator, protocol=5)


def _from_cell(cell: bytes) -> Any:  # noqa: ANN401 (the aggregate's own)
    return pickle.loads(cell)  # noqa: S301 (the query's own state)


def _columns_of(aggregate: Aggregate | BuiltIn, schema: pa.Schema) -> _Columns:
    if not isinstance(aggregate, BuiltIn):
        return _own(aggregate)
    column = aggregate.column
    value_type = None if column is None else schema.field(column).type
    return BUILT_INS[aggregate.kind].columns(column, value_type)


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
        numbers = count()
        self._names = [[f"part{next(numbers)}" for _ in one.parts] for one in self._columns]
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
            if one.merge is not None:
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
