"""A stream whose events are in a topic, which a test writes to and notes time of."""

from collections.abc import Mapping
from typing import Any

import httpx
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, SparkSession

from spark_source import follow
from tests.kafka import create_topic, delete_records, quiet
from tests.patience import PATIENCE_S
from tests.spark.feed import DAY, Feed
from tidegauge.client.kafka import Topic, settings_of

EVENT_TIME = "timestamp_millis(bigint(string(value)))"
"""The time of a record, which is its value and its timestamp."""


class KafkaFeed(Feed):
    """Writes records, and notes times at positions of the topic."""

    def __init__(
        self,
        url: str,
        bootstrap: str,
        topic: str,
        *,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        super().__init__(url, f"kafka/{topic}", transport=transport)
        self.topic = topic
        self.bootstrap = bootstrap
        # A broker that is back is found at once, not within 10 s.
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": "100",
        }
        self.log = Topic(self.settings, topic)
        self.producer = self._new_producer()

    def _new_producer(self) -> Producer:
        return Producer(settings_of(self.settings, linger_ms=0, enable_idempotence=True))

    @property
    def options(self) -> dict[str, str]:
        named = {f"kafka.{name}": value for name, value in self.settings.items()}
        return {"url": self.url, "stream": self.stream, "log": "kafka", **named}

    def create(self, partitions: int = 1, **config: object) -> None:  # type: ignore[override]
        """Create the topic and the stream."""
        self.create_topic(partitions, **config)
        self.create_stream(partitions)

    def create_topic(self, partitions: int = 1, **config: object) -> None:
        # Records of 1970 would be dropped at once: retention goes by the time of a record.
        settings: dict[str, object] = {"retention_ms": -1} | config
        create_topic(self.bootstrap, self.topic, partitions=partitions, **settings)

    def create_stream(self, partitions: int = 1, **settings: object) -> None:
        super().create(partitions, log="external", **settings)

    def write(self, *times: int | None, partition: int = 0, **more: Any) -> None:
        """Write a record for each time, and wait until all are stored."""
        self.write_in(self.producer, *times, partition=partition, **more)
        assert self.producer.flush(PATIENCE_S) == 0

    def write_in(
        self, producer: Producer, *times: int | None, partition: int = 0, **more: Any
    ) -> None:
        """Write with a producer of the test's, without waiting."""
        for time in times:
            at = DAY + (time or 0)
            record: dict[str, Any] = {"value": str(at), "key": "k", "timestamp": at} | more
            producer.produce(self.topic, partition=partition, **record)

    def transactional(self, name: str) -> Producer:
        """Make a producer with a transaction open."""
        producer = Producer(settings_of(self.settings, transactional_id=f"{self.topic}-{name}"))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        return producer

    def note(
        self, time_ms: int, writer: str = "w", position: Mapping[int, int] | None = None
    ) -> None:
        """Note a time at a position: at the ends of the log unless given."""
        reached = self.log.high_watermarks() if position is None else position
        super().note(time_ms, writer, reached)

    def seal(self, position: Mapping[int, int] | None = None) -> None:
        """End the stream where the topic ends."""
        super().seal(self.log.high_watermarks() if position is None else position)

    def grow(self, partitions: int) -> None:
        """Add partitions, of which producers that were there before know after minutes only."""
        admin = AdminClient(quiet(self.settings))
        grown = admin.create_partitions([NewPartitions(self.topic, partitions)])
        grown[self.topic].result(PATIENCE_S)
        self.producer = self._new_producer()

    def drop(self, before: Mapping[int, int]) -> None:
        """Drop what lies before an offset of a partition, as retention does."""
        delete_records(self.bootstrap, self.topic, before)

    def read(self, spark: SparkSession, **options: str) -> DataFrame:
        """Read the topic with Spark's own source."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "startingOffsets": "earliest"}
        if options.keys().isdisjoint({"subscribePattern", "assign"}):
            given["subscribe"] = self.topic
        return spark.readStream.format("kafka").options(**given | options).load()

    def follow(self, df: DataFrame, checkpoint: str, **options: Any) -> DataFrame:
        """Give what Spark's own source reads the watermark of the topic's writers."""
        stream = {"url": self.url, "stream": self.stream, "topic": self.topic}
        given: dict[str, Any] = {"event_time": EVENT_TIME, "checkpoint": checkpoint}
        return follow(df, **stream | given | options)
