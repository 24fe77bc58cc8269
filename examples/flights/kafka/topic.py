"""The topic that the flights are in, and how a carrier writes there: a flight's timestamp is its departure."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from examples.flights.carriers import Address, create_stream
from examples.flights.waiting import FlightsError
from writer_client.kafka import NotingProducer

PARTITIONS = 4
_CALL_S = 30.0


@dataclass(frozen=True, slots=True)
class FlightTopic:
    """A topic of some brokers."""

    name: str
    bootstrap: str

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of a client of Kafka, which prints warnings alone."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 4}

    def create(self) -> None:
        """Create the topic, unless it is there; flights of 2013 are older than any retention."""
        admin = AdminClient(self.settings)
        if self.name not in admin.list_topics(timeout=_CALL_S).topics:
            topic = NewTopic(self.name, PARTITIONS, config={"retention.ms": "-1"})
            admin.create_topics([topic])[self.name].result(_CALL_S)

    def create_stream(self, address: Address, flights: pd.DataFrame) -> None:
        """Create the stream of the topic's time: a segment for each partition, and no events."""
        create_stream(address, flights, log="external", segments=PARTITIONS)

    def delete(self) -> None:
        """Delete the topic, with all that is in it."""
        admin = AdminClient(self.settings)
        admin.delete_topics([self.name])[self.name].result(_CALL_S)

    def source_options(self) -> dict[str, str]:
        """Return the options of Tidegauge's source that read the topic."""
        return {"log": "kafka", "topic": self.name, **self.spark_options()}

    def spark_options(self) -> dict[str, str]:
        """Return the settings as options of a source of Spark."""
        return {"kafka.bootstrap.servers": self.bootstrap}

    def open_log(self, address: Address, carrier: str) -> "TopicLog":
        """Make the log of a carrier."""
        return TopicLog(self, address, carrier)

    def ends(self) -> dict[int, int]:
        """Return the next offset of each partition."""
        consumer = Consumer({**self.settings, "group.id": self.name})
        places = [TopicPartition(self.name, partition) for partition in range(PARTITIONS)]
        ends = [consumer.get_watermark_offsets(place, timeout=_CALL_S)[1] for place in places]
        consumer.close()
        return dict(enumerate(ends))

    def read(self) -> pd.DataFrame:
        """Return ``key``, ``value`` and ``event_time`` of all records, by partition and offset."""
        ends = self.ends()
        unread = {partition for partition, end in ends.items() if end}
        consumer = Consumer(
            {**self.settings, "group.id": self.name, "enable.auto.commit": False}
        )
        consumer.assign([TopicPartition(self.name, partition, 0) for partition in unread])
        records = []
        while unread:
            record = consumer.poll(_CALL_S)
            if record is None or record.error():
                msg = f"the topic {self.name} cannot be read: {record and record.error()}"
                raise FlightsError(msg)
            partition, offset = record.partition() or 0, record.offset() or 0
            key, event_time = (record.key() or b"").decode(), record.timestamp()[1]
            records.append((partition, offset, key, record.value(), event_time))
            if offset + 1 >= ends[partition]:
                unread.discard(partition)
        consumer.close()
        columns = ["partition", "offset", "key", "value", "event_time"]
        return pd.DataFrame(records, columns=columns).set_index(["partition", "offset"])


class TopicLog:
    """A topic, and the stream of its time: a `FlightLog`."""

    def __init__(self, topic: FlightTopic, address: Address, carrier: str) -> None:
        self._topic = topic
        self._producer = NotingProducer(
            Producer(topic.settings),
            address.url,
            address.stream,
            carrier,
            settings=topic.settings,
            token=address.token,
        )
        self.open, self.note_time = self._producer.open, self._producer.note_time
        self.leave = self._producer.leave

    def stored(self) -> Iterator[tuple[str, bytes]]:
        """Return the key and value of all flights that are stored."""
        records = self._topic.read()
        return zip(records["key"], records["value"], strict=True)

    def write(self, value: bytes, *, key: str, event_time: int) -> None:
        """Produce a flight."""
        self._producer.produce(self._topic.name, value, key, timestamp=event_time)
