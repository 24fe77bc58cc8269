"""The data source of ticks, which `follow` puts beside Spark's own Kafka source."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

import reader_client
from spark_source.arrow_values import scalar
from spark_source.checkpoints.checkpoint import Checkpoint
from spark_source.checkpoints.ticks import (
    TickOffset,
    check_log,
    check_topic,
    next_offset,
    position_of,
)
from spark_source.compatibility import (
    ReadLimit,
    SupportsTriggerAvailableNow,
    arrow_schema,
    for_this_spark,
)
from spark_source.errors import InvalidOptionError, without_traceback
from spark_source.following.mark_watch import MarkWatch
from spark_source.options.given import GivenOptions
from spark_source.options.times import GREATEST_TIME, LEAST_TIME
from spark_source.source.follower import lag_ms
from tidegauge.client.addresses import check_token, check_url
from tidegauge.names import StreamName
from tidegauge.topology import Position

TICK = "_tidegauge_tick"
"""The column that is true in ticks, and null in the rows they are united with."""

_SCHEMA = StructType(
    [StructField("watermark", TimestampType()), StructField(TICK, BooleanType())]
)
_ARROW_SCHEMA = arrow_schema(_SCHEMA)
_FIRST_CONTACT = timedelta(seconds=5)
"""A wrong address is told soon: at the first contact it is likelier than an outage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Options:
    url: str
    stream: str
    topic: str
    checkpoint: str
    topic_id: str | None = None
    token: str | None = field(default=None, repr=False)

    def client(self, stream_id: str) -> "reader_client.StreamClient":
        return reader_client.StreamClient(
            self.url, self.stream, token=self.token, stream_id=stream_id
        )

    def first_client(self) -> "reader_client.StreamClient":
        return reader_client.StreamClient(
            self.url, self.stream, token=self.token, retry_for=_FIRST_CONTACT
        )


def _read_options(given: dict[str, str]) -> _Options:
    asked = GivenOptions(given, of="follow()", listed="its docstring")
    options = _Options(
        url=asked.need("url", check_url, "http://127.0.0.1:8470"),
        stream=str(asked.need("stream", StreamName.parse, "shop/orders")),
        topic=asked.need("topic", str, "orders"),
        checkpoint=asked.need("checkpoint", str, "/var/lib/orders"),
        topic_id=asked.take("topicId", str),
        token=asked.take("token", check_token),
    )
    asked.refuse_others()
    return options


class TickDataSource(DataSource):
    """Has a row for each batch in which time rises, and no others; see `follow`."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return "tidegauge-ticks"

    @without_traceback()
    def schema(self) -> StructType:
        """Name the columns of a tick, unless the stream or the checkpoint is a wrong one."""
        options = _read_options(dict(self.options))
        Checkpoint(options.checkpoint)
        with options.first_client() as client:
            if client.describe().config.log != "external":
                cure = "has its events in the service's own log; load it with read_stream()"
                raise InvalidOptionError("stream", f"{options.stream} {cure}")
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's)
        """Make ticks as time rises."""
        return for_this_spark(TickReader(_read_options(dict(self.options))))


@dataclass(slots=True)
class _Tick(InputPartition):
    bound: int | None


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans ticks in the planner's process.

    The offset log is read once a batch: Spark writes a batch into it before it commits the one
    before, and before it asks where the next one ends.
    """

    def __init__(self, options: _Options) -> None:
        self._options = options
        self._run = uuid4().hex
        self._watch: MarkWatch | None = None
        self._drain_to: int | None = None
        self._drains = False
        self._planned: TickOffset | None = None
        self._read_at: TickOffset | None = None
        self._position: Position | None = None
        self._has_moved = True

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """Stand before the first mark: nothing is planned of Kafka yet."""
        options = self._options
        with options.first_client() as client:
            begun = client.describe().stream_id
        return TickOffset(begun, options.topic, topic_id=options.topic_id).to_json()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 (Spark's)
        """Plan the bound of the next batch, by what Kafka was planned to in the batch before."""
        begun = TickOffset.from_json(start)
        check_topic(begun, self._options.topic_id)
        self._read_log(begun)
        watch = self._watching(begun)
        passed = None if self._position is None else watch.passed(self._position)
        is_done = self._drain_to is not None and begun.revision >= self._drain_to
        self._planned = next_offset(
            begun,
            None if is_done else passed,
            run=self._run,
            is_due=self._drains or self._has_moved or watch.is_settled,
        )
        return self._planned.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's)
        """Describe where the stream stands, for Spark's progress; the backlog is the Kafka source's."""
        if self._watch is None or self._planned is None:
            return None
        watermark = self._watch.watermark
        return {
            "stream": self._options.stream,
            "reader_group": None,
            "watermark": watermark,
            "revision": self._watch.revision,
            "lag_ms": lag_ms(self._planned.bound, watermark),
            "backlog_rows": None,
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """End with the newest of the marks that are there now and that Kafka is read up to."""
        self._drains = True

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """Make one tick: a function of the logged offset alone."""
        return [_Tick(TickOffset.from_json(end).bound)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the row, on an executor."""
        if isinstance(partition, _Tick):  # Spark reads None where there is none
            bound = partition.bound
            time = None if bound is None else min(max(bound, LEAST_TIME), GREATEST_TIME) * 1_000
            columns = [
                pa.repeat(scalar(value, one.type), 1)
                for value, one in zip((time, True), _ARROW_SCHEMA, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=_ARROW_SCHEMA)

    def commit(self, end: dict[str, Any]) -> None:  # noqa: ARG002 (as Spark has it)
        """Know that the offset log has another batch."""
        self._read_at = None

    def stop(self) -> None:
        """Stop watching."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None

    def _read_log(self, start: TickOffset) -> None:
        if start == self._read_at:
            return
        location, topic = self._options.checkpoint, self._options.topic
        ends = Checkpoint(location).newest_ends()
        check_log(location, ends, start)
        position = position_of(topic, ends) if ends else None
        self._has_moved = position != self._position
        self._position, self._read_at = position, start

    def _watching(self, start: TickOffset) -> MarkWatch:
        if self._watch is None:
            self._watch = MarkWatch(self._options.client(start.stream_id))
            if self._drains:
                self._drain_to = self._watch.revision
        return self._watch
