"""Arrow values that are made without pandas.

Arrow imports pandas, where it is installed, to look at Python and numpy values: a process of Spark
that reads or writes a few rows would spend most of its time on that.
"""

import sys

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


def empty(schema: pa.Schema) -> pa.Table:
    """Make a table without rows."""
    return pa.Table.from_batches([], schema)
