"""The data source: ``format("tidegauge")``."""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

import reader_client
from spark_source.columns import schema_of
from spark_source.compatibility import (
    ReadLimit,
    SupportsTriggerAvailableNow,
    for_this_spark,
)
from spark_source.errors import InvalidOptionError, LogReplacedError, without_traceback
from spark_source.logs.choice import log_of
from spark_source.options.load import Options, read_options
from spark_source.options.sink import read_batch_options, read_stream_options
from spark_source.source.follower import Follower
from spark_source.source.group import QueryGroup
from spark_source.source.partitions import SegmentPartition, TickPartition
from spark_source.source.planner import (
    Batch,
    Limits,
    Offset,
    begin,
    divided,
    plan,
    rows_between,
    time_to_reach,
)
from spark_source.source.starts import (
    FIRST_CONTACT,
    check_load,
    check_nothing_lost,
    check_stream,
    ending_position,
    first_client,
    starting_offset,
)
from tidegauge.errors import StreamReplacedError
from tidegauge.lattice import covers, cut_of, down_set
from tidegauge.topology import Position, Topology

if TYPE_CHECKING:
    from spark_source.sink.sink import BatchSink, StreamSink

_log = logging.getLogger(__name__)


class TidegaugeDataSource(DataSource):
    """Reads a stream with its watermark, from the embedded log or from Kafka.

    ``load()`` asks the service for the stream, and fails where that or an option is wrong; over
    Spark Connect, where a load is lazy, what first asks for its schema does. An option that is
    not listed is an error. Times are ms or RFC 3339 with a zone, cuts are written ``0:40,1:12``,
    durations ``10 minutes``.

    | option | meaning |
    |---|---|
    | ``url`` | Of the service, such as ``http://127.0.0.1:8470``, or of each of its controllers, with commas between. |
    | ``stream`` | ``scope/stream``. |
    | ``token`` | Bearer token, if the service wants one. |
    | ``log`` | ``kafka`` for a stream whose events are in a topic; ``embedded`` is the default. |
    | ``kafka.bootstrap.servers`` | Of Kafka, required there. |
    | ``topic`` | Of Kafka: the stream's name without its scope by default. |
    | ``kafka.*`` | Anything else goes to librdkafka, such as ``kafka.security.protocol``. |
    | ``readerGroup`` | ``scope/group``, or a group of the stream's scope: the query is its only reader, and its commits advance it; a start takes it over from an older query, which fails with ``reader_fenced``. Without a checkpoint the query starts where the group is. |
    | ``startingOffsets`` | ``earliest`` (default) or ``latest``. |
    | ``startingTime`` | Only rows at or above it, from where the first of them lies; seconds are refused. |
    | ``startingCut`` | Start there. |
    | ``endingTime`` | Only rows below it, rounded up to ms; fails if they are not complete yet. |
    | ``endingCut`` | End there. |
    | ``allowIncomplete`` | ``true``: ``endingTime`` may lie above the watermark. |
    | ``maxEventTimePerTrigger`` | A batch ends at the next multiple of it; with ``admission=marks`` it waits for that, and batches are the same live and replayed. |
    | ``maxRowsPerTrigger`` | 1 000 000 by default; ``none`` lifts it. |
    | ``admission`` | ``tail`` (default) reads on beyond the newest mark, ``marks`` never does. |
    | ``minTimeStep`` | Event time alone makes a batch when it rose by so much; 1 second by default. |
    | ``maxRowsPerPartition`` | A task reads at most so many rows of a segment; what a batch has of one is divided equally. ``none`` by default: a task for each segment. |
    | ``failOnDataLoss`` | ``false``: continue with the remaining events if the log lost events that the query needs. |
    | ``outOfRange`` | ``null``: read as null a time outside the years 1 to 9999, which Spark cannot hold, and in a stream also one before 1970-01-01T00:00:00.001Z, which Spark's own operators drop; ``fail`` is the default. `process`, `windowed` and ``operators="none"`` take times before 1970 as they are, and so does a batch read. |
    | ``eventTime`` | ``expression``: event times are inside the values, and ``event_time=`` of `watermarked` takes them out; `read_stream` sets it. The source flags no row as late then, and leaves ``startingTime`` and ``endingTime`` to what is above it: it starts at the beginning, since the log knows of no such times. ``stored`` is the default. |

    A row has the columns ``key string, event_time timestamp, value binary, segment long, offset long,
    watermark timestamp, late boolean, tick boolean, late_by long, late_below timestamp, writer
    string, append_time timestamp``. ``watermark`` is the bound of the batch's end, ``late_below``
    that of its start: a row below it is late, by ``late_by`` ms. ``writer`` and ``append_time``
    are null where the log does not know who appended and when. From Kafka ``key`` is binary, and
    there are ``headers array<struct<key string, value binary>>`` and ``timestamp timestamp``, the
    record's, which is the event time unless an expression is. A tick row carries the two bounds
    alone. Batch reads have neither ticks nor bounds, and there a row is late by the mark that was
    newest where it lies.

    It writes frames with the columns ``key``, ``event_time`` (a timestamp, or ms) and ``value``
    (a string or binary), see `as_events`; a query by `write_stream`. ``url``, ``stream`` and
    ``token`` are as above.

    | option of a write | meaning |
    |---|---|
    | ``checkpointLocation`` | Of a query, required. |
    | ``outputDelay`` | How far below Spark's watermark the query emits rows; none by default. |
    | ``seal`` | ``true``: seal the stream once what its writers read has ended. |
    | ``writer`` | Of a batch write, required: its name in the stream. |
    | ``noteTime`` | A time to note behind a batch write. |
    """

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return "tidegauge"

    @without_traceback()
    def schema(self) -> StructType:
        """Name the columns of a row, unless the load is wrong: Spark asks for them at once.

        What its readers raise, Spark shows when a query starts, below errors of its own.
        """
        options = read_options(dict(self.options))
        with first_client(options) as client:
            check_stream(client, options)
            check_load(log_of(options, client, retry_for=FIRST_CONTACT), options)
        return schema_of(options)

    @without_traceback()
    def reader(self, schema: StructType) -> "BatchReader":  # noqa: ARG002 (it is fixed)
        """Read what is there."""
        options = read_options(dict(self.options))
        if options.reader_group is not None:
            raise InvalidOptionError("readerGroup", "is for streaming reads; leave it out")
        if options.time_is_expression:
            raise InvalidOptionError("eventTime", "is for streaming reads; leave it out")
        return BatchReader(options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's)
        """Read what is there and what comes."""
        return for_this_spark(StreamReader(read_options(dict(self.options))))

    @without_traceback()
    def writer(self, schema: StructType, overwrite: bool) -> "BatchSink":  # noqa: FBT001 (Spark's)
        """Write a frame; a stream is appended to."""
        from spark_source.sink.sink import BatchSink, check_columns  # noqa: PLC0415 (no reader needs it)

        options = read_batch_options(dict(self.options))
        check_columns(schema)
        if overwrite:
            raise InvalidOptionError("mode", "a stream is appended to; use mode('append')")
        return BatchSink(options)

    @without_traceback()
    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamSink":  # noqa: ARG002, FBT001, N802 (Spark's)
        """Write what a query emits, batch by batch."""
        from spark_source.sink.sink import StreamSink, check_columns  # noqa: PLC0415 (the same)

        options = read_stream_options(dict(self.options))
        check_columns(schema)
        return StreamSink(options)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans batches in the planner's process and reads them on executors.

    Nothing is connected before the first question.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._follower: Follower | None = None
        self._run: int | None = None
        self._drain = False
        self._topology: Topology | None = None
        self._end: Any = None
        self._group: QueryGroup | None = None
        self._batch: Batch | None = None

    @without_traceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """Find where a query without a checkpoint starts."""
        with first_client(self._options) as client:
            log = log_of(self._options, client)
            return starting_offset(log, client, self._options).to_json()

    @without_traceback()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 (Spark's)
        """Plan the end of the next batch; answered from what is known, without a request."""
        begun = self._offset(start)
        self._confirm(begun)  # asked for more, so all before it is done
        follower = self._following(begun)
        if self._run is None:
            self._run = begun.run + 1
        limits = Limits(
            admission=self._options.admission,
            max_rows=self._options.max_rows,
            max_event_time_ms=self._options.max_event_time_ms,
            min_time_step_ms=self._options.min_time_step_ms,
            end=self._end,
        )
        show = follower.frozen_view if self._drain else follower.view
        end = plan(
            begun,
            show(begun, time_to_reach(begun, limits)),
            limits,
            run=self._run,
            is_settled=self._drain or follower.is_settled,
        )
        if end is begun:
            return start
        self._batch = Batch(begun, end, (start, end.to_json()))
        return self._batch.written[1]

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's)
        """Describe how far the stream is and what is still to read, for Spark's progress."""
        if self._follower is None or self._batch is None:
            return None
        names = {"stream": self._options.stream, "reader_group": self._options.reader_group}
        return self._follower.report(self._batch.end) | names

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """Read up to what is there now, and the newest bound."""
        self._drain = True

    @without_traceback()
    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """Divide a planned batch: a function of its logged offsets alone."""
        if self._batch is None or self._batch.written != (start, end):
            self._batch = Batch.from_json(start, end)
        ended = self._batch.end
        begun = begin(self._batch.start, ended)
        self._join_group(begun)
        topology = self._topology_for(ended)
        has_tick = (begun.bound, begun.run) != (ended.bound, ended.run)
        parts = _parts(topology, begun.position, ended.position, self._options)
        if not parts:
            tick = TickPartition(self._options, ended.bound, begun.bound)
            return [tick] if has_tick else []
        return [
            SegmentPartition(
                self._options,
                ended.stream_id,
                segment,
                offsets.start,
                offsets.stop,
                bound=ended.bound,
                late_below=begun.bound,
                tick=has_tick and place == 0,
                log_id=ended.log_id,
            )
            for place, (segment, offsets) in enumerate(parts)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, on an executor."""
        from spark_source.source.rows import read_rows  # noqa: PLC0415 (no planner needs it)

        return read_rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Advance the reader group, if the query has one."""
        self._confirm(self._offset(end))

    def stop(self) -> None:
        """Stop following."""
        if self._follower is not None:
            self._follower.stop()
            self._follower = None
        if self._group is not None:
            self._group.close()
            self._group = None

    def _offset(self, written: dict[str, Any]) -> Offset:
        """Read an offset, unless the newest batch ends there."""
        if self._batch is not None and self._batch.written[1] == written:
            return self._batch.end
        return Offset.from_json(written)

    def _join_group(self, start: Offset) -> QueryGroup | None:
        """Take the reader group over, once, where the query is."""
        group = self._options.reader_group
        if self._group is None and group is not None:
            self._group = QueryGroup(self._options, group, start.position)
        return self._group

    def _confirm(self, read: Offset) -> None:
        group = self._join_group(read)
        if group is not None:
            group.confirm(read.position)

    def _following(self, start: Offset) -> Follower:
        if self._follower is None:
            with ExitStack() as undo:
                client = undo.enter_context(_client(self._options, start.stream_id))
                log = log_of(self._options, client)
                if self._options.fail_on_data_loss:
                    check_nothing_lost(start, log.starts(), log.extent())
                self._end = ending_position(log, client, self._options)
                self._follower = Follower(log, client, start)
                undo.pop_all()
        return self._follower

    def _topology_for(self, end: Offset) -> Topology:
        """Know at least the segments of an offset; the topology only grows."""
        if self._topology is None or any(n not in self._topology for n in end.position):
            with _client(self._options, end.stream_id) as client:
                info = client.describe()
                if info.stream_id != end.stream_id:
                    raise StreamReplacedError(
                        self._options.stream, info.stream_id, end.stream_id
                    )
                extent = log_of(self._options, client).extent()
                if extent.log_id != end.log_id:
                    raise LogReplacedError(extent.log_id, end.log_id)
                self._topology = extent.topology
        return self._topology


class BatchReader(DataSourceReader):
    """Reads what is there when the job is planned."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """Divide what is there by segment."""
        with first_client(self._options) as client:
            log = log_of(self._options, client)
            start = starting_offset(log, client, self._options)
            end = ending_position(log, client, self._options) or log.extent().ends
            topology = log.extent().topology  # last: it knows the segments of both then
            parts = _parts(topology, start.position, end, self._options)
            marks = _marks_between(client, topology, start, end, dict(parts))
        return [
            SegmentPartition(
                self._options,
                start.stream_id,
                segment,
                offsets.start,
                offsets.stop,
                marks=marks[segment],
                log_id=start.log_id,
            )
            for segment, offsets in parts
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read a partition, on an executor."""
        from spark_source.source.rows import read_rows  # noqa: PLC0415 (no planner needs it)

        return read_rows(partition)


def _parts(
    topology: Topology, start: Position, end: Position, options: Options
) -> list[tuple[int, range]]:
    """List what each task reads, segment by segment."""
    return [
        (segment, part)
        for segment, offsets in rows_between(topology, start, end).items()
        for part in divided(offsets, options.max_rows_of_partition)
    ]


def _marks_between(
    client: "reader_client.StreamClient",
    topology: Topology,
    start: Offset,
    end: Position,
    segments: Iterable[int],
) -> dict[int, tuple[list[int], list[int]]]:
    """List for each of some segments the offsets of the marks' cuts, and their lower bounds.

    From the newest mark that the start covers: an event read is in no cut before it, or late
    by that one too. To the first that covers the end; marks of a topology scaled since then are
    beyond it.
    """
    last = down_set(topology, cut_of(topology, end))
    by_segment: dict[int, tuple[list[int], list[int]]] = {n: ([], []) for n in segments}
    after, done = max(0, start.revision - 1), False
    while not done and (page := client.marks(after=after, limit=1_000)):
        marks = [mark for mark in page if mark.cut.keys() <= topology.segments.keys()]
        after = page[-1].revision
        done = len(marks) < len(page) or covers(topology, marks[-1].cut, end)
        for mark in marks:
            counts = down_set(topology, mark.cut)
            for number, (offsets, bounds) in by_segment.items():
                if counts.get(number, 0) <= last.get(number, 0):
                    offsets.append(counts.get(number, 0))
                    bounds.append(mark.lower)
    return by_segment


def _client(options: Options, stream_id: str | None = None) -> "reader_client.StreamClient":
    return reader_client.StreamClient(
        options.url, options.stream, token=options.token, stream_id=stream_id
    )
