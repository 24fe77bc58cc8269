"""The log port over a topic, as its events are read: by a consumer that is in no group."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from spark_source.collector import without_collector
from spark_source.options.kafka import KafkaTopic
from spark_source.options.times import GREATEST_TIME, LEAST_TIME, from_ms
from tidegauge.client.kafka import BrokerError, Topic, is_passing, made, settings_of
from tidegauge.log import EventRun, EventsLostError

_PAGE = 10_000
_PAGE_S = 0.02
"""A page that gaps keep from being full is not waited for longer."""
_CALL_S = 10.0
_PATIENCE_S = 60.0
_LOG_APPEND_TIME = 2
_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_TUNING = {
    "group.id": "tidegauge",
    "fetch.wait.max.ms": "50",  # how long the broker keeps the end of a partition to itself
    "fetch.queue.backoff.ms": "10",  # a second by default, in which the queue runs empty
}
"""What a load may set otherwise. There is no group, but librdkafka wants a name for it."""


class KafkaReader:
    """Reads what is committed, partition by partition; see `LogReader`.

    Raises
    ------
    BrokerError
        If a setting is wrong, the broker refuses, or hands out nothing for a minute.
    """

    def __init__(self, topic: KafkaTopic) -> None:
        self._topic = topic.name
        self._described = Topic(dict(topic.settings), topic.name)
        self._bootstrap = self._described.bootstrap
        self._reading = object()
        self._consumer = made(
            Consumer,
            settings_of(
                _TUNING | dict(topic.settings),
                auto_offset_reset="error",
                enable_auto_commit=False,
                enable_auto_offset_store=False,
                enable_partition_eof=True,
                isolation_level="read_committed",
            ),
        )

    def read(self, segment: int, offsets: range) -> Iterator[EventRun]:
        """Read to the end of the offsets, though the last of them may be no events."""
        self._reading = reading = object()
        self._assign(segment, offsets.start)
        try:
            yield from self._runs(segment, offsets)
        finally:
            if self._reading is reading:  # else it was abandoned, and another one is under way
                self._consumer.unassign()

    def log_id(self) -> str:
        """Ask for the id of the topic."""
        return self._described.describe().topic_id

    def _assign(self, segment: int, at: int) -> None:
        self._consumer.assign([TopicPartition(self._topic, segment, at)])

    def _runs(self, segment: int, offsets: range) -> Iterator[EventRun]:
        at, reason = offsets.start, "no answer"
        give_up = time.monotonic() + _PATIENCE_S
        while at < offsets.stop:
            reached, run, notices = self._page(segment, at, offsets.stop)
            if reached > at:
                at = reached
                if run is not None:
                    yield run
                give_up = time.monotonic() + _PATIENCE_S
            for notice in notices:
                error, offset = notice.error(), notice.offset()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 (its name)
                    at = max(at, offset or 0)
                    self._check_end(segment, at, offsets)
                elif error is not None:
                    reason = self._checked(error, segment, at)
            if time.monotonic() > give_up:
                raise BrokerError(
                    self._bootstrap, f"partition {segment} from {at} on: {reason}"
                )

    @without_collector()
    def _page(
        self, segment: int, at: int, stop: int
    ) -> tuple[int, EventRun | None, list[Message]]:
        """Read on; return how far that reaches, the events below the stop, and what is no event."""
        page = self._consumer.consume(min(_PAGE, stop - at), _PAGE_S)
        records = [message for message in page if message.error() is None]
        notices = []
        if len(records) < len(page):
            notices = [message for message in page if message.error() is not None]
        if records:
            at = (records[-1].offset() or 0) + 1
            if at > stop:
                records = [one for one in records if (one.offset() or 0) < stop]
        return at, _run_of(segment, records) if records else None, notices

    def _check_end(self, segment: int, at: int, offsets: range) -> None:
        """Raise if the log itself ends before the offsets do, and not a replica of it."""
        if at < offsets.stop:
            _, end = self._limits(segment)
            if end < offsets.stop:
                raise EventsLostError(segment, at, at)

    def _checked(self, error: KafkaError, segment: int, at: int) -> str:
        """Raise what does not pass by itself; return what may."""
        if error.code() in {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}:  # noqa: SLF001
            start, end = self._limits(segment)
            if not start <= at <= end:
                raise EventsLostError(segment, at, max(start, min(at, end)))
            self._assign(segment, at)  # a replica that was behind refused it
            return error.str()
        if not is_passing(error):
            raise BrokerError(self._bootstrap, error.str())
        return error.str()

    def _limits(self, segment: int) -> tuple[int, int]:
        place = TopicPartition(self._topic, segment)
        try:
            limits: tuple[int, int] = self._consumer.get_watermark_offsets(place, _CALL_S)
        except KafkaException as error:
            raise BrokerError(self._bootstrap, error.args[0].str()) from error
        return limits


def _run_of(segment: int, records: Sequence[Message]) -> EventRun:
    """Turn records into columns, with no more Python for each cell than a call."""
    offsets = pa.array([one.offset() for one in records], pa.int64())
    end = offsets[-1].as_py() + 1
    kinds, times = zip(*[one.timestamp() for one in records], strict=True)
    stamps = np.array(times, np.int64)
    known = pa.array(stamps, mask=stamps < 0)
    # Spark cannot hold every time of a record.
    held = pc.and_(pc.greater_equal(known, LEAST_TIME), pc.less_equal(known, GREATEST_TIME))
    columns: dict[str, Any] = {
        "key": pa.array([one.key() for one in records], pa.binary()),
        "event_time": known,
        "value": pa.array([one.value() for one in records], pa.binary()),
        "append_time": pa.array(stamps, mask=np.array(kinds) != _LOG_APPEND_TIME),
        "writer": pa.nulls(len(records), pa.string()),
        "headers": _headers([one.headers() for one in records]),
        "timestamp": from_ms(pc.if_else(held, known, pa.scalar(None, pa.int64()))),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    return EventRun(segment, offsets, end, batch)


def _headers(found: list[Any]) -> pa.Array:
    if found.count(None) == len(found):
        return pa.nulls(len(found), _HEADERS)
    return pa.array([one or None for one in found], _HEADERS)
