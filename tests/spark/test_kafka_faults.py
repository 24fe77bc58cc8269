"""The broker and the service go away and come back: every row is in its window, or flagged."""

from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.conftest import NewServer
from tests.patience import PATIENCE_S
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import KafkaFeed
from tidegauge_cli.demo.kafka.broker import Broker

_MINUTE = 60_000


def test_rows_in_are_rows_in_windows_and_rows_flagged_late_whatever_goes_away(
    spark: SparkSession, new_server: NewServer, tmp_path: Path
) -> None:
    with (
        Broker(tmp_path / "broker") as broker,
        new_server() as server,
        KafkaFeed(server.url, broker.bootstrap, "faults") as topic,
    ):
        topic.create(partitions=2)
        rows = topic.load(spark, operators="windows", name="read")
        counted = rows.groupBy(F.window("event_time", "1 minute")).count()
        start = (F.unix_millis("window.start") - DAY).alias("start")

        def produce(minute: int) -> None:
            for partition in range(2):
                topic.write(*(minute * _MINUTE + n for n in range(50)), partition=partition)
            topic.note((minute + 1) * _MINUTE)

        with Followed(counted.select(start, "count"), str(tmp_path / "checkpoint")) as query:
            produce(0)
            query.until_bound(1 * _MINUTE)
            broker.stop()
            topic.write_in(topic.producer, *(_MINUTE + n for n in range(50)), partition=1)
            broker.start()
            assert topic.producer.flush(PATIENCE_S) == 0
            topic.note(2 * _MINUTE)
            query.until_bound(2 * _MINUTE)
            server.kill()
            topic.write(*(2 * _MINUTE + n for n in range(50)))
            server.start()
            topic.note(3 * _MINUTE)
            topic.write(0)  # its writer broke its promise
            topic.note(4 * _MINUTE)
            query.until_bound(4 * _MINUTE)
            query.query.processAllAvailable()
            told = [one["observedMetrics"] for one in query.query.recentProgress]
    seen = [one["read"] for one in told if "read" in one]  # a batch without input has none
    assert sorted(query.rows) == [(0, 100), (_MINUTE, 50), (2 * _MINUTE, 50)]
    assert sum(one["late"] for one in seen) == 1
    assert sum(one["rows"] for one in seen) == sum(count for _, count in query.rows) + 1
