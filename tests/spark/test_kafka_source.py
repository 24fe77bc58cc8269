"""A stream whose events are in Kafka, on a real broker."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from reader_client import ReaderGroup, StreamClient
from spark_source import TidegaugeDataSource
from spark_source.errors import LoadError
from tests.broker import Broker
from tests.kafka import create_topic
from tests.patience import PATIENCE_S
from tests.server import ServerProcess
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import KafkaFeed

_NUMBERS = count(1)
_AT = f"unix_millis(event_time) - {DAY} AS at"


@pytest.fixture
def topic(shared_server: ServerProcess, broker: Broker) -> Iterator[KafkaFeed]:
    name = f"source-{next(_NUMBERS)}"
    with KafkaFeed(shared_server.url, broker.bootstrap, name) as one:
        yield one


def test_a_row_has_all_that_a_record_has_and_no_plan_shows_a_secret(
    spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create()
    topic.write(1_000, headers=[("h", b"1"), ("h", None)])
    topic.write(2_000, key=None, value=None)
    topic.note(2_000)
    df = topic.load(spark, **{"kafka.sasl.password": "tg-hidden"})
    assert [f"{one.name} {one.dataType.simpleString()}" for one in df.schema] == [
        "key binary",
        "event_time timestamp",
        "value binary",
        "segment bigint",
        "offset bigint",
        "watermark timestamp",
        "late boolean",
        "late_by bigint",
        "late_below timestamp",
        "writer string",
        "append_time timestamp",
        "headers array<struct<key:string,value:binary>>",
        "timestamp timestamp",
    ]
    columns = ("key", _AT, "value", "segment", "offset", "late", "writer", "append_time")
    with Followed(df.selectExpr(*columns, "headers"), checkpoint) as followed:
        followed.until_read(2_000)
    headers = [("h", b"1"), ("h", None)]
    assert followed.rows == [
        (b"k", 1_000, b"v", 0, 0, False, None, None, headers),
        (None, 2_000, None, 0, 1, False, None, None, None),
    ]
    logged = [one.read_text() for one in Path(checkpoint).rglob("[0-9]*") if one.is_file()]
    shown = [_plans(df), str(followed.query.lastProgress), *logged]
    assert "kafka.sasl.password=*********(redacted)" in shown[0]
    assert not [text for text in shown if "tg-hidden" in text]


def test_a_mark_beyond_an_open_transaction_waits_while_all_else_is_read(
    spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create(partitions=2)
    topic.write(1_000)
    opened = topic.transactional("open")
    topic.write_in(opened, 1_500)
    opened.flush(PATIENCE_S)
    topic.write(2_000)
    topic.note(3_000)  # at the high watermarks, beyond the transaction
    topic.write(4_000, partition=1)
    with Followed(topic.load(spark).selectExpr(_AT), checkpoint) as followed:
        _read_all(followed, topic)
        assert sorted(followed.rows) == [(1_000,), (4_000,)]
        assert followed.bounds == [None]
        opened.commit_transaction(PATIENCE_S)
        followed.until_read(3_000)
        assert sorted(followed.rows) == [(1_000,), (1_500,), (2_000,), (4_000,)]
        last = topic.transactional("aborted")  # and its marker ends the partition
        topic.write_in(last, 5_000)
        last.flush(PATIENCE_S)
        last.abort_transaction(PATIENCE_S)
        topic.note(6_000)
        followed.until_read(6_000)
        assert len(followed.rows) == 4


def test_a_partition_that_the_stream_does_not_have_is_read_and_another_topic_is_not(
    spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create()
    topic.write(1_000)
    topic.note(2_000)
    rows = topic.load(spark, readerGroup="query").selectExpr(_AT, "segment", "late")
    with Followed(rows, checkpoint) as followed:
        followed.until_read(2_000)
        topic.grow(2)
        topic.write(1_500, 3_000, partition=1)
        followed.until(lambda: len(followed.rows) == 3, "the rows of the new partition")
        assert sorted(followed.rows[1:]) == [(1_500, 1, True), (3_000, 1, False)]
        topic.note(4_000, position={0: 1})
        followed.until_read(4_000)
        with ReaderGroup(topic.url, "kafka/query") as group:
            assert group.describe().state.to_state().position(topic.stream) == {0: 1}
        admin = AdminClient(topic.settings)
        admin.delete_topics([topic.topic])[topic.topic].result(PATIENCE_S)
        with pytest.raises(StreamingQueryException, match=f"has no topic '{topic.topic}'"):
            followed.until(lambda: False, "the end of the query")
    create_topic(topic.settings["bootstrap.servers"], topic.topic)
    with (
        Followed(rows, checkpoint) as again,
        pytest.raises(StreamingQueryException, match="the topic was deleted and created again"),
    ):
        again.until(lambda: False, "the end of the query")


def test_a_bounded_read_takes_a_slice_of_what_retention_left(
    spark: SparkSession, topic: KafkaFeed
) -> None:
    topic.create(partitions=2)
    topic.write(1_000, 5_000, 2_000, 9_000)
    topic.write(6_000, 3_000, partition=1)
    topic.note(8_000)

    def read(**options: str) -> list[tuple[int, int]]:
        spark.dataSource.register(TidegaugeDataSource)
        loaded = spark.read.format("tidegauge").options(**topic.options, **options).load()
        return sorted(tuple(row) for row in loaded.selectExpr("segment", "offset").collect())

    assert read(startingTime=str(DAY + 4_000), endingTime=str(DAY + 8_000)) == [(0, 1), (1, 0)]
    assert read(startingCut="0:3,1:1", endingCut="0:4,1:1") == [(0, 3)]
    topic.drop({0: 2})
    assert read() == [(0, 2), (0, 3), (1, 0), (1, 1)]
    with pytest.raises(
        PySparkException, match="needs segment 0 from offset 0, and the log goes"
    ):
        read(startingCut="0:0,1:2")
    assert read(startingCut="0:0,1:2", failOnDataLoss="false") == [(0, 2), (0, 3)]


def test_a_drained_topic_is_divided_over_tasks_and_what_is_left_is_told(
    spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create()
    for second in (1, 2):
        topic.write(*(second * 1_000 + n for n in range(4)))
        topic.note((second + 1) * 1_000)
    rows = topic.load(spark, maxRowsPerTrigger="4", maxRowsPerPartition="2")
    query = (
        rows.select("offset", F.spark_partition_id().alias("task"))
        .writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint)
        .format("memory")
        .queryName("drained")
        .start()
    )
    assert query.awaitTermination(120)
    found = [tuple(row) for row in spark.table("drained").orderBy("offset").collect()]
    assert found == [(offset, offset // 2 % 2) for offset in range(8)]
    told = [one["sources"][0] for one in query.recentProgress]
    left = [json.loads(one["latestOffset"]) for one in told]
    assert [one["backlog_rows"] for one in left[:2]] == [4, 0]
    assert {(one["watermark"], str(one["tail"])) for one in left} == {(DAY + 3_000, "{'0': 8}")}
    ends = [json.loads(one["endOffset"]) for one in told]
    assert [one["bound"] - DAY for one in ends[:2]] == [2_000, 3_000]


def test_a_load_that_looks_for_events_in_the_wrong_place_says_where_they_are(
    spark: SparkSession, topic: KafkaFeed
) -> None:
    with StreamClient(topic.url, topic.stream) as client:
        client.create()
    with pytest.raises(LoadError, match="keeps its events itself; leave out log=kafka"):
        topic.load(spark)
    with StreamClient(topic.url, topic.stream) as client:
        client.delete()
        topic.create_stream()
    with pytest.raises(LoadError, match=f"has no topic '{topic.topic}'"):
        topic.load(spark)


def _read_all(followed: Followed, topic: KafkaFeed) -> None:
    """Wait until a query stands at the last stable offsets and has nothing left to do."""
    ends = {str(number): at for number, at in topic.log.ends().items()}
    followed.until(lambda: followed._end.get("position") == ends, f"the ends {ends}")
    followed.query.processAllAvailable()


def _plans(df: DataFrame) -> str:
    execution = df._jdf.queryExecution()
    return str(execution.toString()) + str(execution.analyzed().toString())
