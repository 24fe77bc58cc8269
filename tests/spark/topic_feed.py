"""A topic that a test writes to, and notes time for, and that Spark's own Kafka source reads."""

from itertools import count
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import follow
from tests.kafka import create_topic, delete_topic, produce
from tests.service.api import Api
from tests.spark.feed import DAY

EVENT_TIME = "timestamp_millis(bigint(string(value)))"
_NUMBERS = count(1)


class TopicFeed:
    """Writes to one topic, without delays and thinning of marks; times are a day later."""

    def __init__(self, bootstrap: str, url: str, *, partitions: int = 2) -> None:
        self.topic = f"followed-{next(_NUMBERS)}"
        self.stream = f"spark/{self.topic}"
        self.url = url
        self.ends = dict.fromkeys(range(partitions), 0)
        self.bootstrap = bootstrap
        self._api = Api(url, self.stream)
        self._create_stream()
        create_topic(bootstrap, self.topic, partitions=partitions)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._api.client.close()

    def write(self, *times: int, partition: int = 0, key: str = "k") -> None:
        """Write a record for each time, which is its value."""
        records = [
            {"value": str(DAY + one), "key": key, "partition": partition} for one in times
        ]
        produce(self.bootstrap, self.topic, records)
        self.ends[partition] += len(times)

    def note(self, time_ms: int, writer: str = "w") -> None:
        """Note a time for all that is written."""
        position = {str(number): end for number, end in self.ends.items()}
        self._api.post(f"writers/{writer}/note-time", time=DAY + time_ms, position=position)

    def seal(self) -> None:
        """End the stream where the topic ends."""
        self._api.post("seal", position={str(number): end for number, end in self.ends.items()})

    def create_stream_anew(self) -> None:
        """Replace the stream by another one of its name."""
        self._api.client.delete(self._api.path).raise_for_status()
        self._create_stream()

    def create_topic_anew(self) -> None:
        """Replace the topic by an empty one of its name."""
        delete_topic(self.bootstrap, self.topic)
        self.ends = dict.fromkeys(self.ends, 0)
        create_topic(self.bootstrap, self.topic, partitions=len(self.ends))

    def _create_stream(self) -> None:
        self._api.create(segments=len(self.ends), mark_resolution_ms=0)

    def read(self, spark: SparkSession, **options: object) -> DataFrame:
        """Load the topic as Spark does."""
        given = {"kafka.bootstrap.servers": self.bootstrap, "startingOffsets": "earliest"}
        if "subscribePattern" not in options:
            given["subscribe"] = self.topic
        named = {name: str(value) for name, value in options.items()}
        return spark.readStream.format("kafka").options(**given, **named).load()

    def follow(self, df: DataFrame, checkpoint: str, **options: Any) -> DataFrame:
        """Follow the topic's writers."""
        given = {"url": self.url, "stream": self.stream, "topic": self.topic}
        given |= {"event_time": EVENT_TIME, "checkpoint": checkpoint}
        return follow(df, **given | options)

    def windows(self, spark: SparkSession, checkpoint: str, **options: object) -> DataFrame:
        """Count in windows of 5 seconds, exactly."""
        followed = self.follow(self.read(spark, **options), checkpoint, operators="windows")
        return counted(followed)


def counted(df: DataFrame) -> DataFrame:
    """Count in windows of 5 seconds; they are told by where they start, less a day."""
    windows = df.groupBy(F.window("event_time", "5 seconds")).count()
    return windows.select((F.unix_millis("window.start") - DAY).alias("start"), "count")
