"""What may go wrong between a topic and a query: every row is in its window, or handed out as late."""

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import windowed
from spark_source.processing import count, tumbling
from tests.broker import Broker
from tests.conftest import NewServer
from tests.effort import Effort
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.spark import kafka_driver
from tests.spark.drivers import driver, kill_later
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import KafkaFeed
from tests.spark.topic_feed import TopicFeed

_MINUTE = 60_000
_STEP = 5_000


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
        df = self.topic.follow(self._spark, self._followed, **options)
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
            told = [one["observedMetrics"] for one in read.query.recentProgress]
        rows_in = sum(topic.log.ends().values())
        assert rows_in == sum(counted.written.values()) + 1
        seen = [one["read"] for one in told if "read" in one]  # a batch without input has none
        assert [sum(one[name] for one in seen) for name in ("rows", "late")] == [rows_in, 1]
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
    missed = f"needs segment 0 from offset {first}, and the log goes on at {first + 2}"
    # Spark loads what its connector raises by a class loader that knows no added jars.
    for start, told in ((counted.read, missed), (counted.follow, "Lost task .* UnknownReason")):
        with start() as query, pytest.raises(StreamingQueryException, match=told):
            query.until(lambda: False, "the failure")
    goes_on = {"failOnDataLoss": "false"}
    with counted.read(**goes_on) as read, counted.follow(**goes_on) as followed:
        for query in (read, followed):
            query.until_read(6 * _MINUTE)
            assert query.rows == [(5 * _MINUTE, 1)]


@pytest.fixture
def feed(broker: Broker, shared_server: ServerProcess) -> Iterator[TopicFeed]:
    with TopicFeed(broker.bootstrap, shared_server.url) as one:
        yield one


@pytest.mark.timeout(3_600)
def test_a_query_whose_driver_is_killed_goes_on_and_each_row_is_in_one_window_or_late(
    kafka_spark: SparkSession,
    feed: TopicFeed,
    tmp_path: Path,
    effort: Effort,
) -> None:
    chance, log = Random(1), tmp_path / "driver.log"
    written, too_late = Counter[int](), Counter[int]()
    for step in range(effort.times("steps", short=4, long=30)):
        start = DAY + _STEP * step
        feed.write(*range(_STEP * step, _STEP * (step + 1), 500), partition=step % 2)
        written[start] += 10
        if step > 0:
            feed.write(_STEP * step - 1, partition=step % 2)  # a broken promise
            too_late[start - _STEP] += 1
        feed.note(_STEP * (step + 1))
    feed.write(0)
    too_late[DAY] += 1
    feed.seal()
    place = feed.bootstrap, feed.url, feed.topic
    command = ["-m", "tests.spark.kafka_driver", *place, str(tmp_path)]
    for kill in range(effort.times("kills", short=1, long=12)):
        with driver(*command, log=log) as process:
            kill_later(process, tmp_path, chance.uniform(0, 2))
            assert kill > 0 or process.returncode == -signal.SIGKILL
    # A checkpoint is of no driver: this one needs no JVM of its own.
    for query in kafka_driver.start(kafka_spark, *place, tmp_path):
        assert query.awaitTermination(600)
    assert _kept(tmp_path / "read") == (written, Counter())
    followed, followed_late = _kept(tmp_path / "followed")
    assert followed + followed_late == written + too_late
    assert Counter({DAY: 1}) <= followed_late <= too_late


def _kept(folder: Path) -> tuple[Counter[int], Counter[int]]:
    """Add up what is in each window, and what is handed out as late; each window fires once."""
    windows, late = Counter[int](), Counter[int]()
    for one in folder.glob("*.json"):
        for output, start, rows in json.loads(one.read_text()):
            assert output == "late" or start not in windows
            (late if output == "late" else windows)[start] += rows
    return windows, late
