"""Spark's own Kafka source with the watermark of a topic's writers."""

from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import process, query_report, write_stream
from spark_source.errors import GuessedWatermarkError, InvalidOptionError, LoadError
from tests.broker import Broker
from tests.kafka import create_topic
from tests.server import ServerProcess
from tests.service.api import Api
from tests.spark.feed import DAY, Followed
from tests.spark.processors import Visits
from tests.spark.restarts import crashed
from tests.spark.targets import Target
from tests.spark.topic_feed import EVENT_TIME, TopicFeed, counted

_FORMAT = "spark.sql.streaming.offsetLog.formatVersion"


@pytest.fixture
def topic(broker: Broker, shared_server: ServerProcess) -> Iterator[TopicFeed]:
    with TopicFeed(broker.bootstrap, shared_server.url) as one:
        yield one


# What the query below hands over in each batch.
BATCHES: dict[int, list[tuple[int, int]]] = {
    0: [],
    1: [],
    2: [(0, 2)],
    3: [],
    4: [],
    5: [(5_000, 3)],
}


@pytest.fixture(scope="module")
def whole(
    kafka_spark: SparkSession,
    broker: Broker,
    shared_server: ServerProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[TopicFeed, str]]:
    """The checkpoint of a query that was stopped and started again."""
    checkpoint = str(tmp_path_factory.mktemp("whole") / "checkpoint")
    with TopicFeed(broker.bootstrap, shared_server.url) as feed:
        batches: dict[int, list[tuple[int, int]]] = {}
        for times, noted in (((1_000, 4_000), 5_000), ((5_000, 6_000, 9_000), 10_000)):
            feed.write(*times)
            feed.note(noted)
            with Followed(feed.windows(kafka_spark, checkpoint), checkpoint) as followed:
                followed.until_read(noted)
            batches |= followed.batches
            assert followed.dropped == 0
        assert batches == BATCHES
        yield feed, checkpoint


@pytest.mark.every_spark
@pytest.mark.parametrize(("batch", "bound"), [(0, None), (1, 5_000), (4, 10_000)])
def test_a_crash_between_offset_log_and_commit_log_repeats_the_batch_as_it_was(
    kafka_spark: SparkSession,
    whole: tuple[TopicFeed, str],
    tmp_path: Path,
    batch: int,
    bound: int | None,
) -> None:
    feed, checkpoint = whole
    again = crashed(checkpoint, tmp_path, batch, committed=False)
    with Followed(feed.windows(kafka_spark, again), again) as followed:
        followed.until_read(10_000)
    assert min(followed.batches) == batch
    assert followed.batches[batch] == BATCHES[batch]
    assert followed.bounds[0] == bound
    before = [row for number in range(batch) for row in BATCHES[number]]
    assert before + followed.rows == [(0, 2), (5_000, 3)]
    assert followed.dropped == 0


def test_available_now_ends_with_the_newest_mark_though_writers_go_on_noting(
    kafka_spark: SparkSession, topic: TopicFeed, checkpoint: str
) -> None:
    topic.write(1_000, 6_000)
    topic.note(10_000)
    stopped = Event()

    def go_on() -> None:
        with Api(topic.url, topic.stream) as api:
            time = DAY + 10_000
            while not stopped.is_set():
                time += 5_000
                api.note("w", time, 2)

    noting = Thread(target=go_on)
    noting.start()
    try:
        rows = _drained(topic.windows(kafka_spark, checkpoint), checkpoint)
    finally:
        stopped.set()
        noting.join()
    assert rows == [(0, 1), (5_000, 1)]


def test_a_followed_topic_is_written_to_a_stream_with_its_watermark_and_a_guess_is_not(
    kafka_spark: SparkSession, topic: TopicFeed, checkpoint: str
) -> None:
    topic.write(1_000, 6_000)
    topic.note(5_000)

    def written(df: DataFrame, target: Target) -> None:
        query = write_stream(
            df,
            url=target.url,
            stream=target.stream,
            key="string(start)",
            event_time="start + 5000",
            checkpoint=checkpoint,
            trigger="availableNow",
        )
        assert query.awaitTermination(120)

    with Target(topic.url, f"{topic.stream}-counted") as target:
        target.create()
        written(topic.windows(kafka_spark, checkpoint), target)
        assert (target.counts(), target.watermark) == ([("0", 5_000 - DAY, 1)], 5_000)
        read = topic.read(kafka_spark).withColumn("event_time", F.expr(EVENT_TIME))
        guess = counted(read.withWatermark("event_time", "1 hour"))
        with pytest.raises(GuessedWatermarkError, match="a stream of 'kafka'"):
            written(guess, target)


def _drained(df: DataFrame, checkpoint: str) -> list[tuple[int, ...]]:
    """Run a query with ``AvailableNow`` to its end."""
    rows: list[tuple[int, ...]] = []
    query = (
        df.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
        .start()
    )
    assert query.awaitTermination(120)
    return rows


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
    shared_server: ServerProcess,
    topic: TopicFeed,
    checkpoint: str,
) -> None:
    with TopicFeed(broker.bootstrap, shared_server.url) as other:

        def joined() -> DataFrame:
            left = topic.follow(topic.read(kafka_spark), checkpoint)
            right = other.follow(other.read(kafka_spark), checkpoint)
            left = left.selectExpr("event_time AS at", "key AS k", "offset AS a")
            right = right.selectExpr("event_time AS bt", "key AS l", "offset AS b")
            near = F.expr("k = l AND bt >= at AND bt <= at + INTERVAL 1 SECONDS")
            return left.join(right, near, "left").select("a", "b")

        topic.write(1_000, 2_000, 9_000)
        other.write(1_500, 1_600)
        topic.note(10_000)
        other.note(10_000)
        with Followed(joined(), checkpoint) as followed:
            followed.until_bound(9_999)
            assert sorted(followed.rows) == [(0, 0), (0, 1), (1, None)]
        topic.note(60_000)
        other.note(60_000)
        with Followed(joined(), checkpoint) as followed:
            followed.until_bound(59_999)
            followed.query.processAllAvailable()
        assert followed.rows == [(2, None)]
        assert followed.dropped == 0


def _processed(df: DataFrame) -> DataFrame:
    made = df.withColumns({"number": F.col("offset"), "shown": F.col("value").cast("string")})
    outputs = process(made, Visits(), columns=["number", "shown"], buckets=2)
    return outputs.frame.where("output <> 'silent'").select("output", F.lit(1), "late.late_by")


def test_a_processor_handles_each_row_or_hands_it_out_as_late(
    kafka_spark: SparkSession, topic: TopicFeed, checkpoint: str
) -> None:
    read = topic.read(kafka_spark).withColumn("key", F.col("key").cast("string"))
    with Followed(_processed(topic.follow(read, checkpoint)), checkpoint) as followed:
        topic.write(1_000, 4_000)
        topic.write(2_000, partition=1)
        topic.note(5_000)
        followed.until_read(5_000)
        topic.write(4_900, 5_000, 9_000, 100)  # two of them break the promise
        topic.note(10_000)
        followed.until_read(10_000)
        topic.seal()
        followed.until(lambda: _handled(followed) == 5, "the end")
        followed.query.processAllAvailable()
    late = [late_by for output, _, late_by in followed.rows if output == "late"]
    assert sorted(late) == [100, 4_900]
    assert _handled(followed) + len(late) == sum(topic.ends.values())
    assert query_report(followed.query).table["rows"].sum() == sum(topic.ends.values())
    assert followed.dropped == 0


def _handled(followed: Followed) -> int:
    return sum(rows for output, rows, _ in followed.rows if output != "late")


def test_another_checkpoint_than_the_querys_own_fails_it(
    kafka_spark: SparkSession, topic: TopicFeed, tmp_path: Path
) -> None:
    windows = topic.windows(kafka_spark, f"{tmp_path}/said")
    with (
        Followed(windows, f"{tmp_path}/real") as followed,
        pytest.raises(StreamingQueryException, match="said is another query's checkpoint"),
    ):
        followed.until(lambda: False, "the failure")


def test_a_checkpoint_is_of_the_topic_and_the_stream_that_it_began_with(
    kafka_spark: SparkSession, topic: TopicFeed, checkpoint: str
) -> None:
    """A topic of the same name with other offsets has another id: one created again, or a mirror."""
    topic.write(1_000)
    topic.note(5_000)
    with Followed(topic.windows(kafka_spark, checkpoint), checkpoint) as followed:
        followed.until_read(5_000)

    def refuses(told: str) -> None:
        with (
            Followed(topic.windows(kafka_spark, checkpoint), checkpoint) as again,
            pytest.raises(StreamingQueryException, match=told),
        ):
            again.until(lambda: False, "the failure")

    topic.create_stream_anew()
    topic.note(9_000)
    refuses("stream .* was deleted and created again")
    topic.create_topic_anew()
    topic.write(2_000, 3_000)
    refuses("such as a mirror")


def test_a_source_that_reads_other_topics_besides_fails_the_query(
    kafka_spark: SparkSession, broker: Broker, topic: TopicFeed, checkpoint: str
) -> None:
    create_topic(broker.bootstrap, f"{topic.topic}-more")
    mixed = topic.read(kafka_spark, subscribePattern=f"{topic.topic}(-more)?")
    with (
        Followed(counted(topic.follow(mixed, checkpoint)), checkpoint) as followed,
        pytest.raises(StreamingQueryException, match=r"one source reads .* besides"),
    ):
        followed.until(lambda: False, "the failure")


def test_what_cannot_be_followed_is_refused_with_the_cure(
    kafka_spark: SparkSession, topic: TopicFeed, shared_server: ServerProcess, checkpoint: str
) -> None:
    read = topic.read(kafka_spark)

    def refused(df: DataFrame, cure: str, at: str = checkpoint, **options: object) -> None:
        with pytest.raises((InvalidOptionError, LoadError), match=cure):
            topic.follow(df, at, **options)

    refused(kafka_spark.range(3).selectExpr("string(id) AS value"), "is not a stream")
    refused(read.withWatermark("timestamp", "1 hour"), "leave withWatermark")
    refused(read.withColumn("watermark", F.lit(1)), "rename it")
    refused(read, "a follow.. of its own", topic="other")
    refused(kafka_spark.readStream.format("rate").load(), "for format..kafka.. alone")
    refused(read, "not one of any, windows", operators="all")
    refused(read, "cannot be read", at="s9://bucket/orders")
    refused(read, "spark/none", stream="spark/none")
    with Api(shared_server.url, f"{topic.stream}-embedded") as api:
        api.create(log="embedded")
    refused(read, "load it with read_stream", stream=f"{topic.stream}-embedded")
