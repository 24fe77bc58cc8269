"""A stream whose events are in a topic, which a test writes to and notes time of."""

from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pyspark.sql import DataFrame, SparkSession

from reader_client import StreamClient
from spark_source import follow, read_stream
from tests.kafka import create_topic, delete_records
from tests.patience import PATIENCE_S
from tests.spark.feed import DAY
from tidegauge.client.kafka import Topic, settings_of
from writer_client import TimeReporter


class KafkaFeed:
    """Writes records a day later than it is told, and notes times a day later, without delay."""

    def __init__(self, url: str, bootstrap: str, topic: str) -> None:
        self.url = url
        self.topic = topic
        self.stream = f"kafka/{topic}"
        # A broker that is back is found at once, not within 10 s.
        self.settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.max.ms": "100",
        }
        self.log = Topic(self.settings, topic)
        self.producer = self._new_producer()
        self._reporters = dict[str, TimeReporter]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reporter in self._reporters.values():
            reporter.close()

    def _new_producer(self) -> Producer:
        return Producer(settings_of(self.settings, linger_ms=0, enable_idempotence=True))

    @property
    def options(self) -> dict[str, str]:
        named = {f"kafka.{name}": value for name, value in self.settings.items()}
        return {"url": self.url, "stream": self.stream, "log": "kafka", **named}

    def create(self, partitions: int = 1, **config: object) -> None:
        self.create_topic(partitions, **config)
        self.create_stream(partitions)

    def create_topic(self, partitions: int = 1, **config: object) -> None:
        # Records of 1970 would be dropped at once: retention goes by the time of a record.
        settings: dict[str, object] = {"retention_ms": -1} | config
        create_topic(
            self.settings["bootstrap.servers"], self.topic, partitions=partitions, **settings
        )

    def create_stream(self, partitions: int = 1, **settings: Any) -> None:
        quick: Any = {"mark_interval_ms": 0, "mark_resolution_ms": 0}
        quick["max_future_skew_ms"] = None  # the times of tests look like seconds
        with StreamClient(self.url, self.stream) as client:
            client.create(log="external", segments=partitions, **quick | settings)

    def write(self, *times: int, partition: int = 0, **more: Any) -> None:
        """Write a record for each time, and wait until all are stored."""
        self.write_in(self.producer, *times, partition=partition, **more)
        assert self.producer.flush(PATIENCE_S) == 0

    def write_in(
        self, producer: Producer, *times: int, partition: int = 0, **more: Any
    ) -> None:
        """Write with a producer of the test's, without waiting."""
        for time in times:
            said: dict[str, Any] = {"value": b"v", "key": b"k", "timestamp": DAY + time} | more
            producer.produce(self.topic, partition=partition, **said)

    def transactional(self, name: str) -> Producer:
        """Make a producer with a transaction open."""
        producer = Producer(settings_of(self.settings, transactional_id=f"{self.topic}-{name}"))
        producer.init_transactions(PATIENCE_S)
        producer.begin_transaction()
        return producer

    def note(
        self, time: int, writer: str = "w", position: Mapping[int, int] | None = None
    ) -> None:
        """Note a time at a position: at the ends of the log unless given."""
        if writer not in self._reporters:
            self._reporters[writer] = TimeReporter(self.url, self.stream, writer)
        reached = self.log.high_watermarks() if position is None else position
        self._reporters[writer].note_time(DAY + time, reached)

    def grow(self, partitions: int) -> None:
        """Add partitions, of which producers that were there before know after minutes only."""
        admin = AdminClient(self.settings)
        grown = admin.create_partitions([NewPartitions(self.topic, partitions)])
        grown[self.topic].result(PATIENCE_S)
        self.producer = self._new_producer()

    def drop(self, before: Mapping[int, int]) -> None:
        """Drop what lies before an offset of a partition, as retention does."""
        delete_records(self.settings["bootstrap.servers"], self.topic, before)

    def load(self, spark: SparkSession, **options: Any) -> DataFrame:
        return read_stream(spark, **self.options | options)

    def follow(self, spark: SparkSession, checkpoint: str, **options: str) -> DataFrame:
        """Read the topic with Spark's own source, and follow its writers."""
        at = {"kafka.bootstrap.servers": self.settings["bootstrap.servers"]}
        read = spark.readStream.format("kafka").options(**at, subscribe=self.topic)
        df = read.options(startingOffsets="earliest", **options).load()
        stream: Any = {"url": self.url, "stream": self.stream, "topic": self.topic}
        return follow(df, event_time="timestamp", checkpoint=checkpoint, **stream)
