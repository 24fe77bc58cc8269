"""The sink: a query's batches become batches of a stream, each once, with the time to note."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_source.arrow_values import empty
from spark_source.checkpoints.checkpoint import Checkpoint
from spark_source.errors import InvalidOptionError, UnknownColumnsError, without_traceback
from spark_source.options.sink import BatchSinkOptions, StreamSinkOptions
from spark_source.sink.target import REQUEST_BYTES, Target
from tidegauge.errors import StreamSealedError, WriterFencedError
from tidegauge.wire.columns import EVENT_SCHEMA
from writer_client._columns import in_parts, to_events
from writer_client._events import encode_events

_log = logging.getLogger(__name__)
_FIRST_NUMBER = 1
"""Of Spark's batch 0. With batch 0 of the log, an empty one, the stream gets to know the query."""


@dataclass(slots=True)
class TaskRows(WriterCommitMessage):
    """What a task has to be published.

    Attributes
    ----------
    events
        As an Arrow IPC stream.
    transaction
        Of the log, with what came before, if that was much.
    """

    events: bytes
    transaction: str | None


class StreamSink(DataSourceStreamArrowWriter):
    """Gathers in tasks and publishes on the driver, where only attempts that won are seen.

    Spark makes one for each batch before its tasks, and another one, in a process of its own,
    to commit. Each makes the query known to the stream first: from its start on it is waited
    for, and a wrong target is reported before anything is computed.
    """

    def __init__(self, options: StreamSinkOptions) -> None:
        self._options = options
        self._query = Checkpoint(options.checkpoint).query_id()
        with self._target() as target:
            target.publish(0, empty(EVENT_SCHEMA))

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Gather the rows of a task."""
        with self._target() as target:
            return gather(iterator, target)

    @without_traceback()
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's)
        """Publish a batch, with what may be noted behind it; again after a crash, to no effect."""
        batch = Checkpoint(self._options.checkpoint).batch(batchId)
        promise = batch.promise(self._options.output_delay_ms)
        events, transactions = _reported(messages)
        ends, stream = promise.is_end and self._options.seal, self._options.stream
        with self._target() as target:
            try:
                published = target.publish(
                    batchId + _FIRST_NUMBER,
                    events,
                    transactions,
                    note_time=promise.time,
                    ended=ends,
                )
            except StreamSealedError:
                # A query that is started again after the end has batches without rows.
                if not promise.is_end or len(events) or transactions:
                    raise
                return
        if promise.is_end and not ends:
            cure = f"set seal=true, or end its writer: tidegauge leave {stream} {self._query} --ended"
            _log.warning("the query has ended, and %s has not: %s", stream, cure)
        elif published.not_ended:
            others = ", ".join(published.not_ended)
            _log.warning(
                "the query has ended; %s is sealed once these have ended: %s", stream, others
            )

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 (Spark's)
        """Drop what tasks of a failed batch staged."""
        with self._target() as target:
            _abort(target, messages)

    def _target(self) -> Target:
        return Target(self._options, self._query)


class BatchSink(DataSourceArrowWriter):
    """Writes a frame as one batch of a writer, which registers for it and leaves behind it.

    Made once, before the tasks; the number of the batch is that of the incarnation, and rises.
    """

    def __init__(self, options: BatchSinkOptions) -> None:
        self._options = options
        with Target(options, options.writer) as target:
            self._incarnation = target.register()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Gather the rows of a task."""
        with self._target() as target:
            return gather(iterator, target)

    @without_traceback()
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish the rows.

        The race: another action of this writer registers meanwhile, and is published first. Then
        the answer names its number.
        """
        number, note_time = self._incarnation, self._options.note_time
        events, transactions = _reported(messages)
        with self._target() as target:
            published = target.publish(number, events, transactions, note_time=note_time)
            if published.last != number:
                raise WriterFencedError(self._options.writer, published.last)
            target.leave()

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop what tasks of a failed action staged."""
        with self._target() as target:
            _abort(target, messages)
            target.leave()

    def _target(self) -> Target:
        return Target(self._options, self._options.writer, self._incarnation)


def check_columns(schema: StructType) -> None:
    """Refuse a frame that has other columns than events have."""
    found = sorted(schema.fieldNames())
    if found not in (sorted(EVENT_SCHEMA.names), ["key", "value"]):
        raise UnknownColumnsError(schema.fieldNames())


def gather(batches: Iterator[pa.RecordBatch], target: Target) -> TaskRows:
    """Take the rows of a task into its message, or stage them if they are too many."""
    parts = _in_requests(to_events(_with_keys(batch), None, None) for batch in batches)
    first = next(parts, empty(EVENT_SCHEMA))
    if first.nbytes < REQUEST_BYTES:
        return TaskRows(encode_events(first), None)

    def staged() -> Iterator[pa.RecordBatch]:
        yield from in_parts(first, REQUEST_BYTES)
        for part in parts:
            yield from in_parts(part, REQUEST_BYTES)

    return TaskRows(b"", target.stage(staged()))


def _with_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    if batch.column("key").null_count:
        cure = (
            "is null in a row, and routes it; give it one, such as key=\"coalesce(taxi, '')\""
        )
        raise InvalidOptionError("key", cure)
    return batch


def _in_requests(batches: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Join small batches until they are worth a request."""
    held: list[pa.Table] = []
    for batch in batches:
        held.append(batch)
        if sum(one.nbytes for one in held) >= REQUEST_BYTES:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _reported(messages: Sequence[WriterCommitMessage | None]) -> tuple[pa.Table, list[str]]:
    """Read what the tasks reported, in their order."""
    tasks = [one for one in messages if isinstance(one, TaskRows)]
    tables = [pa.ipc.open_stream(one.events).read_all() for one in tasks if one.events]
    events = pa.concat_tables([empty(EVENT_SCHEMA), *tables])
    return events, [one.transaction for one in tasks if one.transaction is not None]


def _abort(target: Target, messages: Sequence[WriterCommitMessage | None]) -> None:
    for transaction in _reported(messages)[1]:
        target.abort(transaction)
