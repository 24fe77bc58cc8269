"""Rows for Spark: Arrow record batches with exactly the schema that Spark expects."""

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from spark_source.arrow_values import integers, scalar
from spark_source.columns import KAFKA_SCHEMA, SCHEMA
from spark_source.compatibility import arrow_schema
from spark_source.errors import DataLossError, EventTimeOutOfRangeError, LogReplacedError
from spark_source.logs.choice import reader_of
from spark_source.options.load import Options
from spark_source.options.times import (
    GREATEST_TIME,
    LEAST_TIME,
    TIMESTAMP,
    from_ms,
    spark_time,
)
from spark_source.source.partitions import SegmentPartition, TickPartition
from tidegauge.event_time import END_OF_TIME, FIRST_TIME
from tidegauge.log import EventRun, EventsLostError, LogReader

ARROW_SCHEMA = arrow_schema(SCHEMA)
KAFKA_ARROW_SCHEMA = arrow_schema(KAFKA_SCHEMA)
_NO_TIME = scalar(None, pa.int64())
_NO, _YES = scalar(False, pa.bool_()), scalar(True, pa.bool_())
_NOTHING = scalar(0, pa.int64())
_ENDLESS = scalar(END_OF_TIME, pa.int64())
_REPEATED = 65_536  # what a chunk of the log holds at most


def _arrow_schema_of(options: Options) -> pa.Schema:
    return ARROW_SCHEMA if options.kafka is None else KAFKA_ARROW_SCHEMA


def read_rows(partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
    """Read a partition, on an executor; Spark reads None where there is none."""
    if isinstance(partition, TickPartition):
        yield tick_row(partition)
    if isinstance(partition, SegmentPartition):
        yield from _segment_rows(partition)


def _segment_rows(partition: SegmentPartition) -> Iterator[pa.RecordBatch]:
    if partition.tick:
        yield tick_row(partition)
    log = reader_of(partition.options, partition.stream_id)
    at = partition.start
    while at < partition.end:
        try:
            for events in log.read(partition.segment, range(at, partition.end)):
                yield rows_of(events, partition)
        except EventsLostError as lost:
            _check_same(log, partition)
            if partition.options.fail_on_data_loss:
                raise DataLossError(lost.segment, lost.wanted, lost.found) from lost
            at = lost.found if lost.found > lost.wanted else partition.end
        else:
            at = partition.end
    _check_same(log, partition)


def _check_same(log: LogReader, partition: SegmentPartition) -> None:
    """Fail a task whose rows may be another log's; asked once they were read."""
    log_id = log.log_id()
    if log_id != partition.log_id:
        raise LogReplacedError(log_id, partition.log_id)


def rows_of(events: EventRun, partition: SegmentPartition) -> pa.RecordBatch:
    """Turn events into rows."""
    count = events.batch.num_rows
    times = events.batch.column("event_time")
    schema = _arrow_schema_of(partition.options)
    if partition.options.time_is_expression:  # what is stored is judged by nobody
        in_force: pa.Scalar | pa.Array = _NO_TIME
    else:
        in_force = _bound_in_force(events, partition)
    late, late_by = _lateness(times, in_force)
    rows = pa.RecordBatch.from_arrays(
        [
            events.batch.column("key"),
            _timestamps(times, events, partition.options),
            events.batch.column("value"),
            _constant(events.segment, count, pa.int64()),
            events.offsets,
            _constant(spark_time(partition.bound), count, TIMESTAMP),
            late,
            _constant(False, count, pa.bool_()),
            late_by,
            _constant(spark_time(partition.late_below), count, TIMESTAMP),
            events.batch.column("writer"),
            from_ms(events.batch.column("append_time")),
            *(events.batch.column(name) for name in schema.names[len(SCHEMA) :]),
        ],
        schema=schema,
    )
    if partition.options.time_is_expression:
        return rows
    return _within_times(rows, times, partition.options)


def tick_row(partition: SegmentPartition | TickPartition) -> pa.RecordBatch:
    """Make the row that carries the bounds of a batch and nothing else."""
    schema = _arrow_schema_of(partition.options)
    values: dict[str, Any] = dict.fromkeys(schema.names)
    values["watermark"] = spark_time(partition.bound)
    values["late_below"] = spark_time(partition.late_below)
    values |= {"late": False, "tick": True}
    return pa.RecordBatch.from_arrays(
        [_constant(values[field.name], 1, field.type) for field in schema], schema=schema
    )


def _bound_in_force(events: EventRun, partition: SegmentPartition) -> pa.Scalar | pa.Array:
    """Find below which time, ms, events are late: one for all, or one each; null for none."""
    if partition.late_below is not None:
        return scalar(partition.late_below, pa.int64())
    starts, bounds = partition.marks
    first = bisect_right(starts, events.offsets[0].as_py())
    if first == bisect_right(starts, events.end_offset - 1):
        return scalar(bounds[first - 1] if first else None, pa.int64())
    places = np.searchsorted(starts, events.offsets.to_numpy(), side="right")
    return integers(np.concatenate(([FIRST_TIME], bounds))[places])


def _lateness(times: pa.Array, in_force: pa.Scalar | pa.Array) -> tuple[pa.Array, pa.Array]:
    """Flag events below the bound in force, and say by how much; no others have a lateness.

    Events without time are not late. At the end of time lateness has no measure but the greatest.
    """
    if isinstance(in_force, pa.Scalar) and not in_force.is_valid:
        count = len(times)
        return _constant(False, count, pa.bool_()), _constant(None, count, pa.int64())
    late = pc.fill_null(pc.less(times, in_force), _NO)
    if not pc.any(late).as_py():
        return late, _constant(None, len(times), pa.int64())
    gap = pc.subtract(in_force, times)
    # A gap that 64 bits do not hold wraps round to below 0.
    endless = pc.or_(pc.equal(in_force, _ENDLESS), pc.less(gap, _NOTHING))
    return late, pc.if_else(late, pc.if_else(endless, _ENDLESS, gap), _NO_TIME)


def _timestamps(times: pa.Array, events: EventRun, options: Options) -> pa.Array:
    least, greatest = pc.min_max(times).values()
    if least.is_valid and (least.as_py() < LEAST_TIME or greatest.as_py() > GREATEST_TIME):
        beyond = pc.or_(pc.less(times, LEAST_TIME), pc.greater(times, GREATEST_TIME))
        outside = pc.fill_null(beyond, False)
        if not (options.out_of_range_as_null or options.time_is_expression):
            at = pc.index(outside, True).as_py()
            raise EventTimeOutOfRangeError(
                times[at].as_py(), events.segment, events.offsets[at].as_py()
            )
        times = pc.if_else(outside, _NO_TIME, times)
    return from_ms(times)


def _within_times(rows: pa.RecordBatch, times: pa.Array, options: Options) -> pa.RecordBatch:
    """Keep what a bounded read asked for; events without a time are kept."""
    for option, compare in (
        (options.starting_time, pc.greater_equal),
        (options.ending_time, pc.less),
    ):
        if option is not None:
            kept = pc.fill_null(compare(times, scalar(option, pa.int64())), _YES)
            rows, times = rows.filter(kept), times.filter(kept)
    return rows


def _constant(value: int | None, count: int, kind: pa.DataType) -> pa.Array:
    if count > _REPEATED:
        return pa.repeat(scalar(value, kind), count)
    return _repeated(value, kind)[:count]


@lru_cache(maxsize=16)
def _repeated(value: int | None, kind: pa.DataType) -> pa.Array:
    """Keep the constants of a batch from chunk to chunk; to write them costs more than to read."""
    return pa.repeat(scalar(value, kind), _REPEATED)
