"""Time windows of consumers of Kafka. Needs the extra ``kafka``; see [the guide](../../how-to/kafka-consumers.md)."""

import logging
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

from tidegauge.client.blocks import Closing
from tidegauge.extras import needs_extra
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.windows import TimeWindow

with needs_extra("reader_client.kafka", extra="kafka"):
    from confluent_kafka import OFFSET_END, Consumer, KafkaException, TopicPartition
    from tenacity import Retrying, retry_if_exception, stop_after_delay, wait_fixed

    from reader_client._stream import StreamClient
    from tidegauge.client.kafka import (
        BrokerError,
        UnknownTopicError,
        is_passing,
        made,
        settings_of,
    )
    from tidegauge.client.outage import RETRY_FOR

__all__ = ["TimeWindows"]

_log = logging.getLogger("tidegauge.kafka")
_BEYOND = (
    "%s ends at %d, and the position there is %d: the topic was created again or lost records, so "
    "none of it counts as read; reset the offsets of the group"
)
_CALL_S = 10.0
_BROKERS = "the brokers of the consumer"


class TimeWindows(Closing):
    """Finds the event-time window of a topic's consumer, from its position alone.

    The service knows nothing of the consumer or its group. All that `poll` or `consume` has returned counts
    as read: ask once that is processed.

    Parameters
    ----------
    consumer
        A ``confluent_kafka.Consumer``; it stays the caller's. For a group by its name see `of_group`.
    url
        Of the service, or of each of its controllers, with commas between.
    stream
        ``scope/stream``, with ``log: external``.
    topic : str, optional
        The stream's log; the name of the stream without its scope if left out.
    token : str, optional
        Bearer token, if the service wants one.
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.

    Notes
    -----
    The position has each partition of the topic, whoever reads it: where this consumer has read up to, in
    those that it is assigned to; what its group has committed, in the others and where it has read nothing
    yet; the first record there is, where nothing is committed. What lies beyond the end of the topic, as
    after it was created again, is no position: that is logged once. So the window is that of the whole
    group, as far as this consumer knows it, and goes back with positions.

    Examples
    --------
    >>> with TimeWindows(consumer, "http://127.0.0.1:8470", "shop/orders") as windows:
    ...     windows.get_time_window()
    TimeWindow(lower=1700000000000, upper=None)
    """

    def __init__(
        self,
        consumer: Consumer,
        url: str,
        stream: str,
        *,
        topic: str | None = None,
        token: str | None = None,
        retry_for: timedelta = RETRY_FOR,
    ) -> None:
        self._consumer = consumer
        self._owns_consumer = False
        self._topic = topic or StreamName.parse(stream).stream
        self._client = StreamClient(url, stream, token=token, retry_for=retry_for)
        self._known: frozenset[int] = frozenset()
        self._starts: dict[int, int] = {}
        self._has_warned = False

    @classmethod
    def of_group(
        cls,
        group: str,
        settings: Mapping[str, Any],
        url: str,
        stream: str,
        **options: Any,  # noqa: ANN401 (as above)
    ) -> Self:
        """Read the position of a consumer group from its committed offsets, without joining it.

        Parameters
        ----------
        group
            Its ``group.id``.
        settings
            Of librdkafka; ``bootstrap.servers`` at least.
        url, stream, **options
            As above.
        """
        # It reads nothing: of partitions it asks for the very end, whatever level the group reads at.
        silent = {
            "group.id": group,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
        consumer = made(Consumer, {**settings_of(settings), **silent})
        windows = cls(consumer, url, stream, **options)
        windows._owns_consumer = True
        return windows

    def get_time_window(self) -> TimeWindow:
        """Return the time window: every event below its ``lower`` has been read.

        Raises
        ------
        BrokerError, UnknownTopicError
            If the broker does not answer, or has no such topic.
        ServiceUnreachableError, UnknownStreamError
            If the service does not answer, or has no such stream.
        """
        found = self._client.marks_at_position(self._of_stream(self.position()))
        return TimeWindow(found.lower, found.upper)

    def position(self) -> Position:
        """Return the next offset to read of each partition of the topic."""
        retrying = Retrying(
            # A group's first coordinator takes a moment, and a new one, too.
            retry=retry_if_exception(
                lambda error: isinstance(error, KafkaException) and is_passing(error.args[0])
            ),
            stop=stop_after_delay(_CALL_S),
            wait=wait_fixed(0.1),
            reraise=True,
        )
        try:
            return retrying(self._position)
        except KafkaException as error:
            raise BrokerError(_BROKERS, error.args[0].str()) from error

    def close(self) -> None:
        """Close the connections, not the caller's consumer."""
        self._client.close()
        if self._owns_consumer:
            self._consumer.close()

    def _position(self) -> Position:
        topic = self._consumer.list_topics(self._topic, timeout=_CALL_S).topics[self._topic]
        if topic.error is not None:
            raise UnknownTopicError(_BROKERS, self._topic)
        assigned = [one for one in self._consumer.assignment() if one.topic == self._topic]
        read = {one.partition: one.offset for one in self._consumer.position(assigned)}
        position = {number: read.get(number, -1) for number in topic.partitions}
        if rest := [number for number, offset in position.items() if offset < 0]:
            places = [TopicPartition(self._topic, number) for number in rest]
            for one in self._consumer.committed(places, timeout=_CALL_S):
                position[one.partition] = one.offset if one.offset >= 0 else self._start(one)
        return self._within(position)

    def _within(self, position: dict[int, int]) -> Position:
        """Count nothing as read where a position is beyond the end, which was asked for after it."""
        places = [TopicPartition(self._topic, number, OFFSET_END) for number in position]
        for place in self._consumer.offsets_for_times(places, timeout=_CALL_S):
            if place.error is not None:
                raise KafkaException(place.error)
            offset, end = position[place.partition], place.offset
            if offset <= end:
                continue
            self._starts.pop(place.partition, None)  # it may be of the former topic
            position[place.partition] = self._start(place)
            if not self._has_warned:
                self._has_warned = True
                where = f"partition {place.partition} of {self._topic}"
                _log.warning(_BEYOND, where, end, offset)
        return position

    def _start(self, place: TopicPartition) -> int:
        """Read the first offset of a partition; only once, since a lower one claims less, if anything."""
        if place.partition not in self._starts:
            first, _ = self._consumer.get_watermark_offsets(place, timeout=_CALL_S)
            self._starts[place.partition] = first
        return self._starts[place.partition]

    def _of_stream(self, position: Position) -> Position:
        """Leave out partitions that no writer has named: no mark speaks of them."""
        if not position.keys() <= self._known:
            self._known = frozenset(self._client.topology().segments)
        return {one: offset for one, offset in position.items() if one in self._known}
