"""Spark's own Kafka source with the watermark of a topic's writers: crashes, restarts and refusals."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import count, follow, tumbling, windowed
from spark_source.errors import InvalidOptionError, LoadError
from tests.broker import Broker
from tests.changefeeds import COCKROACHDB, TICDC, Changefeed
from tests.kafka import delete_topic
from tests.service.api import NOON, Api
from tests.service.observed import Observed
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import KafkaFeed

_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


def _windows(topic: KafkaFeed, spark: SparkSession, checkpoint: str) -> DataFrame:
    followed = topic.follow(topic.read(spark), checkpoint, operators="windows")
    return _counted(followed)


def _counted(df: DataFrame) -> DataFrame:
    """Count in windows of 5 seconds, named by where they start, less a day."""
    windows = df.groupBy(F.window("event_time", "5 seconds")).count()
    return windows.select((F.unix_millis("window.start") - DAY).alias("start"), "count")


@pytest.fixture
def second_format(kafka_spark: SparkSession) -> Iterator[None]:
    """Let queries that begin here write offset logs of the format that names sources."""
    kafka_spark.conf.set(_FORMAT, "2")
    yield
    kafka_spark.conf.unset(_FORMAT)


@pytest.mark.usefixtures("second_format")
def test_two_topics_are_joined_and_an_idle_one_does_not_hold_the_other_after_a_restart(
    kafka_spark: SparkSession,
    broker: Broker,
    topic: KafkaFeed,
    checkpoint: str,
) -> None:
    with KafkaFeed(topic.url, broker.bootstrap, f"{topic.topic}-joined") as other:

        def joined() -> DataFrame:
            left = topic.follow(topic.read(kafka_spark), checkpoint)
            right = other.follow(other.read(kafka_spark), checkpoint)
            left = left.selectExpr("event_time AS at", "key AS k", "offset AS a")
            right = right.selectExpr("event_time AS bt", "key AS l", "offset AS b")
            near = F.expr("k = l AND bt >= at AND bt <= at + INTERVAL 1 SECONDS")
            return left.join(right, near, "left").select("a", "b")

        for feed, times in ((topic, (1_000, 2_000, 9_000)), (other, (1_500, 1_600))):
            feed.create()
            feed.write(*times)
            feed.note(10_000)
        with Followed(joined(), checkpoint) as followed:
            followed.until_read(10_000)
            assert sorted(followed.rows) == [(0, 0), (0, 1), (1, None)]
        for feed in (topic, other):
            feed.note(60_000)
        with Followed(joined(), checkpoint) as followed:
            followed.until_read(60_000)
        assert followed.rows == [(2, None)]
        assert followed.dropped == 0


def test_a_checkpoint_is_of_the_topic_and_the_stream_that_it_began_with(
    kafka_spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    """A topic of the same name with other offsets has another id: one created again, or a mirror."""
    topic.create()
    topic.write(1_000)
    topic.note(5_000)
    with Followed(_windows(topic, kafka_spark, checkpoint), checkpoint) as followed:
        followed.until_read(5_000)

    def refuses(words: str) -> None:
        with (
            Followed(_windows(topic, kafka_spark, checkpoint), checkpoint) as again,
            pytest.raises(StreamingQueryException, match=words) as raised,
        ):
            again.fail()
        assert "Traceback" not in str(raised.value)

    topic.delete()
    topic.create_stream()
    topic.note(9_000)
    refuses("stream .* was deleted and created again")
    delete_topic(topic.bootstrap, topic.topic)
    topic.create_topic()
    topic.write(2_000, 3_000)
    refuses("such as a mirror")


def test_what_cannot_be_followed_is_refused_with_the_cure(
    kafka_spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create()
    read = topic.read(kafka_spark)

    def refused(df: DataFrame, cure: str, at: str = checkpoint, **options: object) -> None:
        with pytest.raises((InvalidOptionError, LoadError), match=cure):
            topic.follow(df, at, **options)

    refused(kafka_spark.range(3).selectExpr("string(id) AS value"), "is not a stream")
    refused(read.withWatermark("timestamp", "1 hour"), "leave withWatermark")
    refused(read.withColumn("watermark", F.lit(1)), "rename it")
    refused(read, "a follow.. of its own", topic="other")
    assigned = topic.read(kafka_spark, assign=f'{{"{topic.topic}": [0]}}')
    refused(read.union(assigned), "load it with subscribe")
    refused(kafka_spark.readStream.format("rate").load(), "for format..kafka.. alone")
    refused(read, "not one of any, windows", operators="all")
    refused(read, "cannot be read", at="s9://bucket/orders")
    refused(read, "spark/none", stream="spark/none")
    with Api(topic.url, f"{topic.stream}-embedded") as api:
        api.create(log="embedded")
    refused(read, "load it with read_stream", stream=f"{topic.stream}-embedded")


_GUIDE = Path(__file__).parents[3] / "docs/how-to/change-data-capture.md"
_TIMES = {"cockroachdb": r'event_time="(.+)"', "ticdc": "For TiCDC the expression is `(.+)`"}


@pytest.mark.parametrize("feed", [COCKROACHDB, TICDC], ids=lambda feed: feed.name)
def test_rows_of_a_changefeed_are_counted_once_by_the_time_that_the_guide_names(
    kafka_spark: SparkSession, observed_of_two: Observed, checkpoint: str, feed: Changefeed
) -> None:
    page = _GUIDE.read_text()
    (event_time,) = re.findall(_TIMES[feed.name], page)
    observed = observed_of_two

    def promise(time: int, *rows: dict[str, Any]) -> None:
        observed.produce(*rows, feed.promise(0, time), feed.promise(1, time))
        words = ("--promises", feed.name, "--from", "beginning", "--until", "end")
        observed.run(*words)

    options = {"kafka.bootstrap.servers": observed.bootstrap, "startingOffsets": "earliest"}
    rows = follow(
        kafka_spark.readStream.format("kafka")
        .options(subscribe=observed.topic, **options)
        .load(),
        event_time=event_time,
        url=observed.url,
        stream=observed.name,
        topic=observed.topic,
        checkpoint=checkpoint,
    ).where("event_time IS NOT NULL")
    counted = windowed(
        rows, tumbling("5 seconds"), key="partition", aggregates={"n": count()}, buckets=1
    )
    shown = counted.frame.select(
        "output", F.unix_millis("result.window.start") - NOON, "result.n", "late.late_by"
    )
    promise(
        NOON + 5_000, feed.row(0, NOON), feed.row(0, NOON + 4_999), feed.row(1, NOON + 5_000)
    )
    with Followed(shown, checkpoint) as query:
        query.until_read(NOON + 5_000 - DAY)
        promise(NOON + 10_000, feed.row(0, NOON))  # delivered again
        query.until_read(NOON + 10_000 - DAY)
        assert sorted(query.rows) == [
            ("late", None, None, 5_000),
            ("result", 0, 2, None),
            ("result", 5_000, 1, None),
        ]
