"""Batches of a topic on a real broker, planned and read in this process as Spark asks for them."""

import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from controller.configuration import ServeSettings
from reader_client import ReaderGroup
from spark_source import TidegaugeDataSource
from spark_source.errors import DataLossError, LogReplacedError
from tests.broker import Broker
from tests.conftest import NewDatabase
from tests.kafka import quiet
from tests.patience import PATIENCE_S
from tests.service.in_process import served_in_process
from tests.spark.feed import DAY
from tests.spark.kafka_feed import KafkaFeed
from tests.spark.played import Played, read_batch
from tidegauge.client.kafka import UnknownTopicError

_NUMBERS = count(1)


@pytest.fixture
def topic(broker: Broker, tmp_path: Path, new_database: NewDatabase) -> Iterator[KafkaFeed]:
    """A topic, whose stream a service in this process has."""
    with (
        served_in_process(ServeSettings(database_url=new_database(tmp_path))) as service,
        service.reached_by_clients(),
        KafkaFeed(
            service.url, broker.bootstrap, f"source-{next(_NUMBERS)}", transport=service
        ) as topic,
    ):
        yield topic


def test_a_row_has_all_that_a_record_has(topic: KafkaFeed) -> None:
    topic.create()
    headers = [("h", b"1"), ("h", None)]
    topic.write(1_000, value=b"v", headers=headers)
    topic.write(2_000, key=None, value=None)
    schema = TidegaugeDataSource(topic.options).schema()
    assert [f"{field.name} {field.dataType.simpleString()}" for field in schema] == [
        "key binary",
        "event_time timestamp",
        "value binary",
        "segment bigint",
        "offset bigint",
        "watermark timestamp",
        "late boolean",
        "tick boolean",
        "late_by bigint",
        "late_below timestamp",
        "writer string",
        "append_time timestamp",
        "headers array<struct<key:string,value:binary>>",
        "timestamp timestamp",
    ]
    columns = ("key", "event_time", "value", "segment", "offset", "late", "writer")
    with Played(topic.options, *columns, "append_time", "headers", "timestamp") as query:
        query.until_rows(2)
    shown = [{"key": name, "value": value} for name, value in headers]
    assert query.rows == [
        (b"k", 1_000, b"v", 0, 0, False, None, None, shown, 1_000),
        (None, 2_000, None, 0, 1, False, None, None, None, 2_000),
    ]


def test_a_mark_beyond_an_open_transaction_waits_while_all_else_is_read(
    topic: KafkaFeed,
) -> None:
    topic.create(partitions=2)
    topic.write(1_000)
    opened = topic.transactional("open")
    topic.write_in(opened, 1_500)
    opened.flush(PATIENCE_S)
    topic.write(2_000)
    topic.note(3_000)  # at the high watermarks, beyond the transaction
    topic.write(4_000, partition=1)
    with Played(topic.options, "event_time") as query:
        query.until_rows(2)
        assert sorted(query.rows) == [(1_000,), (4_000,)]
        assert set(query.bounds) == {None}
        opened.commit_transaction(PATIENCE_S)
        query.until_read(3_000)
        assert sorted(query.rows) == [(1_000,), (1_500,), (2_000,), (4_000,)]
        last = topic.transactional("aborted")  # and its marker ends the partition
        topic.write_in(last, 5_000)
        last.flush(PATIENCE_S)
        last.abort_transaction(PATIENCE_S)
        topic.note(6_000)
        query.until_read(6_000)
        assert len(query.rows) == 4


def test_a_partition_that_the_stream_does_not_have_is_read_and_another_topic_is_not(
    topic: KafkaFeed,
) -> None:
    topic.create()
    topic.write(1_000)
    topic.note(2_000)
    query = Played(topic.options | {"readerGroup": "query"}, "event_time", "segment", "late")
    with query:
        query.until_read(2_000)
        topic.grow(2)
        topic.write(1_500, 3_000, partition=1)
        query.until_rows(3)
        assert sorted(query.rows[1:]) == [(1_500, 1, True), (3_000, 1, False)]
        topic.note(4_000, position={0: 1})
        query.until_read(4_000)
        with ReaderGroup(topic.url, "kafka/query") as group:
            assert group.position(topic.stream) == {0: 1}
        admin = AdminClient(quiet(topic.settings))
        admin.delete_topics([topic.topic])[topic.topic].result(PATIENCE_S)
        with pytest.raises(UnknownTopicError, match=f"has no topic '{topic.topic}'"):
            query.until(lambda: False)
    topic.create_topic()
    with query, pytest.raises(LogReplacedError, match="was deleted and created again"):
        query.read()
    assert f"tidegauge-stream-{topic.stream}" not in {one.name for one in threading.enumerate()}


def test_a_bounded_read_takes_a_slice_of_what_retention_left(topic: KafkaFeed) -> None:
    topic.create(partitions=2)
    topic.write(1_000, 5_000, 2_000, 9_000)
    topic.write(6_000, 3_000, partition=1)
    topic.note(8_000)

    def read(**options: str) -> list[tuple[int, int]]:
        return read_batch(topic.options | options, "segment", "offset")

    assert read(startingTime=str(DAY + 4_000), endingTime=str(DAY + 8_000)) == [(0, 1), (1, 0)]
    assert read(startingCut="0:3,1:1", endingCut="0:4,1:1") == [(0, 3)]
    topic.drop({0: 2})
    assert read() == [(0, 2), (0, 3), (1, 0), (1, 1)]
    with pytest.raises(
        DataLossError, match="needs segment 0 from offset 0, and the log continues"
    ):
        read(startingCut="0:0,1:2")
    assert read(startingCut="0:0,1:2", failOnDataLoss="false") == [(0, 2), (0, 3)]
