"""Event times of files: a column of Parquet, and what statistics say of it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidegauge.event_time import END_OF_TIME, to_event_time
from tidegauge.tables.work import File, Files


def to_ms(value: Any) -> int | None:  # noqa: ANN401 (as libraries give it)
    """Turn a statistic, or the value of a partition, into ms."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if not isinstance(value, datetime):
        return None
    return to_event_time(value if value.tzinfo else value.replace(tzinfo=UTC))


def read_times(data: Any, path: Sequence[str], below: int) -> list[int]:  # noqa: ANN401 (a file of Arrow)
    """Read the times of one column of a Parquet file that are below one, ms."""
    # In this thread: one of Arrow's that reads a file of Python's may abort the process as that ends.
    file = pq.ParquetFile(data, pre_buffer=False)
    table = file.read(columns=[".".join(path)], use_threads=False)
    column = table[path[0]]
    for part in path[1:]:
        column = pc.struct_field(column, part)
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    # A time before the epoch is rounded down as well, which a cast would not do.
    micros = pc.floor_temporal(column.cast(pa.timestamp(column.type.unit)), unit="millisecond")
    times = micros.cast(pa.timestamp("ms")).cast(pa.int64()).drop_null()
    return list(times.filter(pc.less(times, below)).to_pylist())


def extent_of(files: Files, every: Iterable[File]) -> tuple[int, int] | None:
    """Find the least and the greatest event time of files; None without one.

    A file without statistics is read.
    """
    bounds = list[int]()
    for file in every:
        if file.low is not None and file.high is not None:
            bounds += (file.low, file.high)
        elif times := files.times(file, END_OF_TIME):
            bounds += (min(times), max(times))
    return (min(bounds), max(bounds)) if bounds else None
