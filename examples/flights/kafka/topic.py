"""The topic that the flights are in, and the log of a carrier that writes there."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.flights.address import StreamAddress
from examples.flights.waiting import DemoFailedError
from tidegauge.client.kafka import Topic, settings_of
from tidegauge.topology import Position
from tidegauge.wire.streams import StreamInfo
from writer_client.kafka import NotingProducer

PARTITIONS = 4
BATCHES = "-batches"
"""How the name of the copy ends that has a partition more, for the batches."""
# Flights of 2013 are older than any retention, and the end of time is later than brokers take.
_ANY_TIME = {
    "retention.ms": "-1",
    "message.timestamp.before.max.ms": str(2**63 - 1),
    "message.timestamp.after.max.ms": str(2**63 - 1),
}
_CALL_S = 30.0


class Record(NamedTuple):
    """A flight in a topic; its time is in ms."""

    partition: int
    offset: int
    key: str
    value: bytes
    departed: int


@dataclass(frozen=True, slots=True)
class FlightTopic:
    """A topic of some brokers: a flight's timestamp is its departure.

    The settings are librdkafka's.
    """

    name: str
    settings: Mapping[str, Any] = field(repr=False)

    def create(self, *, partitions: int = PARTITIONS) -> None:
        """Create it, for events of any time; fine if it is there.

        Raises
        ------
        DemoFailedError
            If the brokers do not answer, or refuse.
        """
        topic = NewTopic(self.name, partitions, config=_ANY_TIME)
        admin = self._admin()
        try:
            admin.create_topics([topic], request_timeout=_CALL_S)[self.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise self._failed("created", error) from error

    @contextmanager
    def created(self, *, partitions: int = PARTITIONS) -> Iterator[Self]:
        """Create it, and delete it in the end."""
        self.create(partitions=partitions)
        try:
            yield self
        finally:
            self.delete()

    def create_stream(self, address: StreamAddress, **settings: int | None) -> StreamInfo:
        """Create the stream of its time; fine if it is there already with these settings."""
        return address.create(log="external", segments=PARTITIONS, **settings)

    def delete(self, *, within_s: float = _CALL_S) -> None:
        """Delete it, with all that is in it; `DemoFailedError` if the brokers keep it."""
        admin = self._admin()
        try:
            admin.delete_topics([self.name], request_timeout=within_s)[self.name].result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise self._failed("deleted", error) from error

    def source_options(self) -> dict[str, str]:
        """Write the options of Tidegauge's source that read it."""
        return {"log": "kafka", "topic": self.name, **self.kafka_options()}

    def kafka_options(self) -> dict[str, str]:
        """Write the settings as options of a source of Spark."""
        return {f"kafka.{name}": str(value) for name, value in self.settings.items()}

    def open_log(self, address: StreamAddress, carrier: str) -> "TopicLog":
        """Make the log of a carrier, which notes time for the stream."""
        return TopicLog(self, address, carrier)

    def ends(self) -> Position:
        """Read the next offset of each partition."""
        return Topic(self.settings, self.name).ends()

    def records(self) -> Iterator[Record]:
        """Read all that is stored now, each partition in its order."""
        topic = Topic(self.settings, self.name)
        starts, ends = topic.starts(), topic.ends()
        unread = {one for one, end in ends.items() if end > starts[one]}
        if not unread:
            return
        settings = settings_of(self.settings, group_id=self.name, enable_auto_commit=False)
        consumer = Consumer(settings)
        consumer.assign([TopicPartition(self.name, one, starts[one]) for one in unread])
        while unread:
            record = consumer.poll(_CALL_S)
            error = None if record is None else record.error()
            if record is None or error is not None:
                reason = error.str() if error else f"nothing came for {_CALL_S:.0f} s"
                msg = f"the topic {self.name} is not read: {reason}"
                raise DemoFailedError(msg)
            partition, offset = record.partition() or 0, record.offset() or 0
            if offset < ends[partition]:
                key, value = record.key() or b"", record.value() or b""
                yield Record(partition, offset, key.decode(), value, record.timestamp()[1])
            if offset + 1 >= ends[partition]:
                unread.discard(partition)
        consumer.close()

    def _failed(self, what: str, error: KafkaException) -> DemoFailedError:
        brokers, reason = self.settings["bootstrap.servers"], error.args[0].str()
        return DemoFailedError(f"the topic {self.name} was not {what} at {brokers}: {reason}")

    def _admin(self) -> AdminClient:
        return AdminClient(settings_of(self.settings))


class TopicLog:
    """A topic and the stream of its time: a `FlightLog`."""

    def __init__(self, topic: FlightTopic, address: StreamAddress, carrier: str) -> None:
        self.begin_anew = (
            f"tidegauge delete {address.stream} --yes, and delete the topic {topic.name}"
        )
        self._topic = topic
        self._producer = NotingProducer(
            Producer(settings_of(topic.settings)),
            address.url,
            address.stream,
            carrier,
            topic=topic.name,
            settings=topic.settings,
            token=address.token,
        )
        self.open, self.note_time = self._producer.open, self._producer.note_time

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """Read the key and value of everything that is stored."""
        return ((one.key, one.value) for one in self._topic.records())

    def write(self, value: bytes, *, key: str, event_time: int) -> None:
        """Produce a flight."""
        self._producer.produce(self._topic.name, value, key, timestamp=event_time)

    def leave(self) -> None:
        """Wait until all is stored and noted, and go."""
        self._producer.leave()
