"""The data source of ticks, which `follow` puts beside a source of Spark's."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast
from uuid import uuid4

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.types import BooleanType, StructField, StructType, TimestampType

from spark_source.arrow_values import scalar
from spark_source.checkpoints.checkpoint import Checkpoint
from spark_source.checkpoints.ticks import Offset, check_log, next_offset
from spark_source.compatibility import (
    ReadLimit,
    SupportsTriggerAvailableNow,
    arrow_schema,
    for_this_spark,
)
from spark_source.errors import without_traceback
from spark_source.following.followed import (
    Followed,
    FollowedTable,
    FollowedTopic,
    Service,
    Watch,
)
from spark_source.options.given import GivenOptions
from spark_source.options.sink import place_options
from spark_source.options.times import spark_time
from spark_source.source.follower import lag_ms
from tidegauge.topology import Position

TICK = "_tidegauge_tick"
"""The column that is true in ticks, and null in the rows they are united with."""

_SCHEMA = StructType(
    [StructField("watermark", TimestampType()), StructField(TICK, BooleanType())]
)
_ARROW_SCHEMA = arrow_schema(_SCHEMA)
_OF_SERVICE = {"url", "stream", "token"}


def _read_options(given: dict[str, str]) -> "tuple[str, Followed[Any]]":
    """Read the checkpoint of the query, and what is followed."""
    asked = GivenOptions(given, of="follow()", listed="its docstring")
    checkpoint = asked.need("checkpoint", str, "/var/lib/orders")
    table = asked.take("table", str)
    is_alone = table is not None and given.keys().isdisjoint(_OF_SERVICE)
    service = None if is_alone else Service(**place_options(asked))
    followed: Followed[Any]
    if table is None:
        topic = asked.need("topic", str, "orders")
        followed = FollowedTopic(topic, cast("Service", service), asked.take("topicId", str))
    else:
        followed = FollowedTable(
            table,
            checkpoint=checkpoint,
            storage_options=asked.take("storageSecrets", json.loads),
            catalog=asked.take("catalogSecrets", json.loads),
            service=service,
            has_start=asked.is_true("hasStart"),
        )
    asked.refuse_others()
    return checkpoint, followed


class TickDataSource(DataSource):
    """Has a row for each batch in which time rises, and no others; see `follow`."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return "tidegauge-ticks"

    @without_traceback()
    def schema(self) -> StructType:
        """Name the columns of a tick, unless the stream or the checkpoint is a wrong one."""
        checkpoint, followed = _read_options(dict(self.options))
        followed.check(is_fresh=not Checkpoint(checkpoint).newest_ends())
        return _SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 (Spark's)
        """Make ticks as time rises."""
        return for_this_spark(TickReader(*_read_options(dict(self.options))))


@dataclass(slots=True)
class _Tick(InputPartition):
    bound: int | None


class TickReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans ticks in the planner's process.

    The offset log is read once a batch: Spark writes a batch into it before it commits the one
    before, and before it asks where the next one ends.
    """

    def __init__(self, checkpoint: str, followed: "Followed[Any]") -> None:
        self._checkpoint = checkpoint
        self._followed = followed
        self._run = uuid4().hex
        self._watch: Watch | None = None
        self._drain_to: int | None = None
        self._drains = False
        self._planned: Offset | None = None
        self._read_at: Offset | None = None
        self._position: Position | None = None
        self._has_moved = True

    @without_traceback()
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 (Spark's)
        """Begin before the first mark: nothing is planned of what is followed yet."""
        first: Offset = self._followed.first()
        return first.to_json()

    @without_traceback()
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: ARG002, N802 (Spark's)
        """Plan the bound of the next batch, by what was planned of what is followed in the batch before."""
        begun = self._followed.offset(start)
        self._read_log(begun)
        watch = self._watching(begun)
        passed = watch.passed(self._position)
        self._planned = next_offset(
            begun,
            None if self._is_drained(begun) else passed,
            run=self._run,
            is_due=self._drains or self._has_moved or watch.is_settled,
        )
        return self._planned.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802 (Spark's)
        """Describe how far the stream is, for Spark's progress; the backlog is the other source's."""
        if self._watch is None or self._planned is None:
            return None
        watermark = self._watch.watermark
        return {
            "stream": self._followed.name,
            "reader_group": None,
            "watermark": watermark,
            "revision": self._watch.revision,
            "explanation": self._watch.explanation,
            "lag_ms": lag_ms(self._planned.bound, watermark),
            "backlog_rows": None,
        }

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 (Spark's)
        """End with the newest of the marks that are there now and that rows are read up to."""
        self._drains = True

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        """Make one tick: a function of the logged offset alone."""
        return [_Tick(self._followed.offset(end).bound)] if start != end else []

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Make the row, on an executor."""
        if isinstance(partition, _Tick):  # Spark reads None where there is none
            values = spark_time(partition.bound), True
            columns = [
                pa.repeat(scalar(value, field.type), 1)
                for value, field in zip(values, _ARROW_SCHEMA, strict=True)
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

    def _read_log(self, start: Offset) -> None:
        if start == self._read_at:
            return
        ends = Checkpoint(self._checkpoint).newest_ends()
        check_log(self._checkpoint, ends, start)
        position = self._followed.planned(start, ends) if ends else None
        self._has_moved = position != self._position
        self._position, self._read_at = position, start

    def _watching(self, start: Offset) -> Watch:
        if self._watch is None:
            self._watch = self._followed.watch(start)
            if self._drains:
                self._drain_to = self._watch.watermark
        return self._watch

    def _is_drained(self, start: Offset) -> bool:
        """Whether a query that drains is as far as the newest mark was when it began."""
        if not self._drains or self._drain_to is None:
            return self._drains
        return start.bound is not None and start.bound >= self._drain_to
