"""A stream whose events are in a topic, which a test writes to and notes time of."""

from collections.abc import Mapping
from typing import Any, Self

from confluent_kafka import Producer
from pyspark.sql import DataFrame, SparkSession

from reader_client import StreamClient
from spark_source import read_stream
from tests.kafka import create_topic
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
        self.settings: dict[str, Any] = {"bootstrap.servers": bootstrap}
        self.log = Topic(self.settings, topic)
        self.producer = Producer(settings_of(self.settings, linger_ms=0))
        self._reporters = dict[str, TimeReporter]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for reporter in self._reporters.values():
            reporter.close()

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

    def create_stream(self, partitions: int = 1) -> None:
        with StreamClient(self.url, self.stream) as client:
            client.create(
                log="external", segments=partitions, mark_interval_ms=0, mark_resolution_ms=0
            )

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

    def load(self, spark: SparkSession, **options: Any) -> DataFrame:
        return read_stream(spark, **self.options | options)
