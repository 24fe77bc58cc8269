"""Arrow values that are made without pandas.

Arrow imports pandas, where it is installed, to look at Python and numpy values: a process of Spark
that reads or writes a few rows would spend most of its time on that.
"""

import sys
from typing import Any

import numpy as np
import pyarrow as pa


def scalar(value: int | None, kind: pa.DataType) -> pa.Scalar:
    """Make a scalar of a type of one bit, or of 64."""
    if value is None:
        return pa.nulls(1, kind)[0]
    written = value.to_bytes(8, sys.byteorder, signed=True)
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(written)])[0]


def integers(values: np.ndarray) -> pa.Array:
    """Make an array of integers."""
    held = np.ascontiguousarray(values, np.int64)
    return pa.Array.from_buffers(pa.int64(), len(held), [None, pa.py_buffer(held)])


def to_python(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Return the values of a column as Python's own, and its timestamps in UTC at any depth.

    Spark hands them over in the zone of the session, in which Python takes two times of the hour
    that repeats for the same.
    """
    values: list[Any] = column.cast(_in_utc(column.type)).to_pylist()
    return values


def _in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind):
        return pa.timestamp(kind.unit, kind.tz and "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_in_utc(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_in_utc(kind.value_type)))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_type), _in_utc(kind.item_type))
    return kind


def empty(schema: pa.Schema) -> pa.Table:
    """Make a table without rows."""
    return pa.Table.from_batches([], schema)
