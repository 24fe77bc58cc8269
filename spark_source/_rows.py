"""Rows for Spark: Arrow record batches with exactly the schema that Spark expects."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from reader_client import Events, StreamClient
from spark_source._errors import DataLossError, EventTimeOutOfRangeError
from spark_source._options import Options
from tidegauge.errors import TruncatedError

SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("event_time", TimestampType()),
        StructField("value", BinaryType()),
        StructField("segment", LongType()),
        StructField("offset", LongType()),
        StructField("watermark", TimestampType()),
        StructField("late", BooleanType()),
        StructField("tick", BooleanType()),
    ]
)
ARROW_SCHEMA = to_arrow_schema(SCHEMA, timezone="UTC")
_TIMESTAMP = ARROW_SCHEMA.field("event_time").type

LEAST_TIME = 1
GREATEST_TIME = 253_402_300_799_999
"""What Spark's watermark can be, in ms: 1970-01-01T00:00:00.001Z to 9999-12-31T23:59:59.999Z."""


@dataclass(slots=True)
class SegmentPartition(InputPartition):
    """Events of one segment to be read by one task.

    Attributes
    ----------
    bound
        Of the batch's end, ms: the watermark of every row; None in batch reads.
    late_below
        Offsets from which a bound counts, and those bounds: an event is late if its time is
        below the last bound whose offset it has reached.
    tick
        Whether the tick row of the batch comes with it.
    """

    options: Options
    stream_id: str
    segment: int
    start: int
    end: int
    bound: int | None
    late_below: tuple[list[int], list[int]]
    tick: bool = False


@dataclass(slots=True)
class TickPartition(InputPartition):
    """The tick row of a batch without events."""

    bound: int | None


def read_rows(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Read a partition, over HTTP, on an executor; Spark reads None where there is none."""
    if isinstance(partition, TickPartition):
        yield tick_row(partition.bound)
    if isinstance(partition, SegmentPartition):
        yield from _segment_rows(partition)


def _segment_rows(partition: SegmentPartition) -> Iterator[pa.RecordBatch]:
    options = partition.options
    if partition.tick:
        yield tick_row(partition.bound)
    client = _client_of_worker(
        options.url, options.stream, options.token, partition.stream_id, os.getpid()
    )
    at = partition.start
    while at < partition.end:
        try:
            for events in client.read(partition.segment, at, partition.end):
                if events.first_offset > at and options.fail_on_data_loss:
                    raise DataLossError(partition.segment, at, events.first_offset)
                yield rows_of(events, partition)
                at = events.end_offset
        except TruncatedError as lost:
            found = lost.first_offset
        else:
            found = at
        if at < partition.end and options.fail_on_data_loss:
            raise DataLossError(partition.segment, at, found)
        if found == at:
            return
        at = found


@lru_cache(maxsize=4)
def _client_of_worker(
    url: str, stream: str, token: str | None, stream_id: str, _pid: int
) -> StreamClient:
    """Keep the connections of a worker process from task to task."""
    return StreamClient(url, stream, token=token, stream_id=stream_id)


def rows_of(events: Events, partition: SegmentPartition) -> pa.RecordBatch:
    """Turn events into rows."""
    count = events.batch.num_rows
    times = events.batch.column("event_time")
    offsets = np.arange(events.first_offset, events.first_offset + count)
    late = _late(times, offsets, *partition.late_below)
    rows = pa.RecordBatch.from_arrays(
        [
            events.batch.column("key"),
            _timestamps(times, events, partition.options),
            events.batch.column("value"),
            _constant(events.segment, count, pa.int64()),
            pa.array(offsets),
            _constant(_spark_time(partition.bound), count, _TIMESTAMP),
            late,
            _constant(False, count, pa.bool_()),
        ],
        schema=ARROW_SCHEMA,
    )
    return _within_times(rows, times, partition.options)


def tick_row(bound: int | None) -> pa.RecordBatch:
    """Make the row that carries a bound and nothing else."""
    values: dict[str, Any] = dict.fromkeys(ARROW_SCHEMA.names)
    values |= {"watermark": _spark_time(bound), "late": False, "tick": True}
    return pa.RecordBatch.from_arrays(
        [_constant(values[field.name], 1, field.type) for field in ARROW_SCHEMA],
        schema=ARROW_SCHEMA,
    )


def _late(
    times: pa.Array, offsets: np.ndarray[Any, Any], starts: list[int], bounds: list[int]
) -> pa.Array:
    """Flag events below the bound in force at their offset; events without time are not late."""
    if not starts:
        return _constant(False, len(times), pa.bool_())
    if len(starts) == 1 and starts[0] <= offsets[0]:
        late = pc.less(times, bounds[0])
    else:
        places = np.searchsorted(starts, offsets, side="right")
        in_force = np.concatenate(([np.iinfo(np.int64).min], bounds))[places]
        late = pc.less(times, pa.array(in_force))
    return pc.fill_null(late, False)


def _timestamps(times: pa.Array, events: Events, options: Options) -> pa.Array:
    beyond = pc.or_(pc.less(times, LEAST_TIME), pc.greater(times, GREATEST_TIME))
    outside = pc.fill_null(beyond, False)
    if pc.any(outside).as_py():
        if not options.out_of_range_as_null:
            at = pc.index(outside, True).as_py()
            raise EventTimeOutOfRangeError(
                times[at].as_py(), events.segment, events.first_offset + at
            )
        times = pc.if_else(outside, pa.scalar(None, pa.int64()), times)
    return times.cast(pa.timestamp("ms", "UTC")).cast(_TIMESTAMP)


def _within_times(rows: pa.RecordBatch, times: pa.Array, options: Options) -> pa.RecordBatch:
    """Keep what a bounded read asked for; events without a time are kept."""
    for option, compare in (
        (options.starting_time, pc.greater_equal),
        (options.ending_time, pc.less),
    ):
        if option is not None:
            kept = pc.fill_null(compare(times, option), True)
            rows, times = rows.filter(kept), times.filter(kept)
    return rows


def _spark_time(bound: int | None) -> int | None:
    """Bring a bound into what Spark's watermark can be, in µs."""
    return None if bound is None else min(max(bound, LEAST_TIME), GREATEST_TIME) * 1_000


def _constant(value: Any, count: int, kind: pa.DataType) -> pa.Array:  # noqa: ANN401 (any value)
    return pa.repeat(pa.scalar(value, kind), count)
