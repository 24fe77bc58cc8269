"""What may go wrong between a topic and a query: every row is in its window, or handed out as late."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import windowed
from spark_source.processing import tumbling
from spark_source.processing.aggregates import count
from tests.broker import Broker
from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import KafkaFeed

_MINUTE = 60_000


class _Counted:
    """A topic that two queries count in windows of a minute."""

    def __init__(self, spark: SparkSession, topic: KafkaFeed, folder: Path) -> None:
        self.topic = topic
        self.written: Counter[int] = Counter()
        self._spark = spark
        self._read, self._followed = str(folder / "read"), str(folder / "followed")

    def read(self, **options: str) -> Followed:
        """Count with ``log=kafka`` and windows of Spark's, which drop late rows."""
        rows = self.topic.load(self._spark, operators="windows", name="read", **options)
        counts = rows.groupBy(F.window("event_time", "1 minute")).count()
        start = F.unix_millis("window.start") - DAY
        return Followed(counts.select(start.alias("start"), "count"), self._read)

    def follow(self, **options: str) -> Followed:
        """Count with `follow` and windows of ours, which hand out late rows: those have no start."""
        df = self.topic.follow(self.topic.read(self._spark, **options), self._followed)
        keyed = df.withColumn("key", F.col("key").cast("string"))
        n, size = {"n": count()}, tumbling("1 minute")
        made = windowed(keyed, size, key="key", aggregates=n, buckets=1)
        start = F.unix_millis("result.window.start") - DAY
        counts = made.frame.select(start.alias("start"), F.coalesce("result.n", F.lit(1)))
        return Followed(counts, self._followed)

    def produce(self, minute: int, *partitions: int, rows: int = 50) -> None:
        """Write rows of a minute to each partition, without waiting."""
        for partition in partitions:
            times = [minute * _MINUTE + n for n in range(rows)]
            self.topic.write_in(self.topic.producer, *times, partition=partition)
            self.written[minute * _MINUTE] += rows

    def note(self, minute: int) -> None:
        """Note a time for all that was written."""
        assert self.topic.producer.flush(PATIENCE_S) == 0
        self.topic.note(minute * _MINUTE)


def test_rows_in_are_rows_in_windows_and_late_rows_whatever_goes_away(
    kafka_spark: SparkSession, broker: Broker, new_server: NewServer, tmp_path: Path
) -> None:
    with (
        new_server() as server,
        KafkaFeed(server.url, broker.bootstrap, "faults") as topic,
    ):
        topic.create_topic(partitions=2)
        topic.create_stream(partitions=2, max_segments=3)
        counted = _Counted(kafka_spark, topic, tmp_path)
        with counted.read() as read, counted.follow() as followed:
            counted.produce(0, 0, 1)
            counted.note(1)
            counted.produce(1, 0, 1, rows=1_000)
            broker.stop()
            counted.produce(1, 1)
            broker.start()
            counted.note(2)
            for query in (read, followed):
                query.until_read(2 * _MINUTE)
            topic.grow(3)
            counted.produce(2, 0, 2)
            counted.note(3)
            server.kill()
            counted.produce(3, 0, 1, 2)
            server.start()
            counted.note(4)
            topic.write(0, partition=1)  # its writer broke its promise
            counted.note(5)
            for query in (read, followed):
                query.until_read(5 * _MINUTE)
            seen = read.observed("read")
        rows_in = sum(topic.log.ends().values())
        assert rows_in == sum(counted.written.values()) + 1
        assert [sum(counts[name] for counts in seen) for name in ("rows", "late")] == [
            rows_in,
            1,
        ]
        assert sorted(read.rows) == sorted(counted.written.items())
        assert Counter(followed.rows) == Counter([*counted.written.items(), (None, 1)])
        assert followed.dropped == 0
        _check_that_rows_that_are_gone_are_missed(counted)


def _check_that_rows_that_are_gone_are_missed(counted: _Counted) -> None:
    """Let retention take rows that neither query has read, and start both again."""
    first = counted.topic.log.ends()[0]
    counted.produce(5, 0, rows=3)
    counted.note(6)
    counted.topic.drop({0: first + 2})
    missed = f"needs segment 0 from offset {first}, and the log continues at {first + 2}"
    # Spark loads what its connector raises by a class loader that knows no added jars.
    for start, words in (
        (counted.read, missed),
        (counted.follow, "Lost task .* UnknownReason"),
    ):
        with start() as query, pytest.raises(StreamingQueryException, match=words):
            query.fail()
    goes_on = {"failOnDataLoss": "false"}
    with counted.read(**goes_on) as read, counted.follow(**goes_on) as followed:
        for query in (read, followed):
            query.until_read(6 * _MINUTE)
            assert query.rows == [(5 * _MINUTE, 1)]
