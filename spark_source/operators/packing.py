"""The rows of a bucket as one cell, in Arrow's stream format.

Spark hands rows to Python cell by cell where state is kept, so there a cell is a bucket's rows.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from spark_source.operators.placement import names_of_buckets
from spark_source.processing import bucket_of

KEY, TIME, SEGMENT, OFFSET = "_key", "_time_us", "_segment", "_offset"
"""The first columns of packed rows, event time in microseconds; the user's own columns follow."""

PACKED = "bucket int, rows binary"
_PACKED_SCHEMA = pa.schema([("bucket", pa.int32()), ("rows", pa.binary())])

# Enough that a cell's schema and Spark's work for a cell are small beside its rows; a task holds
# that many rows.
_ROWS_AT_ONCE = 100_000

Combine: TypeAlias = Callable[[pa.Table], pa.Table]
"""What makes fewer rows of some before they are shuffled; the key's column stays."""


def pack(
    batches: Iterator[pa.RecordBatch], *, buckets: int | None, combine: Combine | None
) -> Iterator[pa.RecordBatch]:
    """Divide rows over buckets, a cell each.

    One task names every bucket without rows: so in every batch with data each bucket is asked,
    one with another number of buckets is found at once, and what they hold adds up.
    """
    names = names_of_buckets(buckets)
    freeze_imports()
    context = TaskContext.get()
    if context is not None and context.partitionId() == 0:
        yield _packed(names, [None] * len(names))
    for table in _tables(batches):
        combined = table if combine is None else combine(table)
        found, cells = _cells(combined, len(names))
        yield _packed([names[bucket] for bucket in found], cells)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Turn cells, in the first column, into the rows they are of."""
    freeze_imports()
    for batch in batches:
        tables = [from_cell(cell.as_buffer()) for cell in batch.column(0) if cell.is_valid]
        if tables:
            yield from pa.concat_tables(tables).combine_chunks().to_batches()


@cache
def freeze_imports() -> None:
    """Keep what is imported out of Python's collections of cycles, once in a process.

    Spark collects all after each task, and going through what is imported took 35 ms.
    """
    gc.freeze()


def to_cell(rows: pa.Table) -> bytes:
    """Write rows, with their schema."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows)
    cell: bytes = sink.getvalue().to_pybytes()
    return cell


def from_cell(cell: bytes | pa.Buffer) -> pa.Table:
    """Read what `to_cell` wrote."""
    with pa.ipc.open_stream(cell) as stream:
        return stream.read_all()


def _tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Gather batches; those without rows are left out."""
    gathered: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            rows += batch.num_rows
        if rows >= _ROWS_AT_ONCE:
            yield pa.Table.from_batches(gathered)
            gathered, rows = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _cells(table: pa.Table, buckets: int) -> tuple[list[int], list[bytes | None]]:
    column = table.column(KEY).combine_chunks()
    if pa.types.is_timestamp(column.type):
        # Their microseconds have the same bucket, and are a tenth of the work to make.
        column = column.cast(pa.int64())
    keys = column.dictionary_encode(null_encoding="encode")
    of_keys = np.array([bucket_of(key, buckets) for key in keys.dictionary.to_pylist()])
    of_rows = of_keys[keys.indices.to_numpy()]
    order = np.argsort(of_rows, kind="stable")
    found, starts = np.unique(of_rows[order], return_index=True)
    ends = [*starts[1:], len(order)]
    ordered = table.take(order).combine_chunks()
    cells: list[bytes | None] = [
        to_cell(ordered.slice(start, end - start))
        for start, end in zip(starts, ends, strict=True)
    ]
    return found.tolist(), cells


def _packed(names: Sequence[int], cells: list[bytes | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"bucket": list(names), "rows": cells}, _PACKED_SCHEMA)
