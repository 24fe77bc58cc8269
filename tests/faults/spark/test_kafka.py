"""A topic read by the source and beside Spark's own: the same windows, and no row is lost."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import in_open_window, process, query_report
from tests.spark.feed import DAY, Followed
from tests.spark.kafka_feed import EVENT_TIME, KafkaFeed
from tests.spark.processors import Visits


@pytest.mark.every_spark
def test_a_topic_has_exact_windows_and_each_row_is_handled_or_late_read_either_way(
    kafka_spark: SparkSession, topic: KafkaFeed, checkpoint: str
) -> None:
    topic.create(partitions=2)
    hidden = {"kafka.sasl.password": "tg-hidden"}
    read = topic.load(kafka_spark, operators="windows", event_time=EVENT_TIME, **hidden)
    followed = topic.follow(topic.read(kafka_spark), checkpoint, operators="windows")
    on_time = followed.where("string(key) <> 'liar'")  # which Spark would drop without a word
    outputs = _windows(in_open_window(read, "5 seconds"), "read").union(
        _windows(on_time, "followed")
    )
    with Followed(outputs.union(_handled(followed)), checkpoint) as query:
        topic.write(1_000, 4_000)
        topic.write(2_000, partition=1)
        topic.note(5_000)
        query.until_read(5_000)
        assert {"read", "followed"} <= {name for name, _, _ in query.rows}
        topic.write(5_000, 9_000)
        topic.write(4_900, 100, key="liar")  # below the time that was noted
        topic.note(10_000)
        query.until_read(10_000)
        topic.seal()
        query.until_end()
        rows = query.rows
        table = query_report(query.query).table
    for way in ("read", "followed"):
        assert [row[1:] for row in rows if row[0] == way] == [(0, 3), (5_000, 2)]
    handled = [late_by for name, _, late_by in rows if name in {"main", "late"}]
    assert sorted(handled) == [0] * 5 + [100, 4_900]
    assert table["rows"].sum() == 2 * 7  # by either source
    assert query.dropped == 0
    logged = [file.read_text() for file in Path(checkpoint).glob("offsets/[0-9]*")]
    assert not [text for text in [_plans(read), *logged] if "tg-hidden" in text]
    assert "kafka.sasl.password=*********(redacted)" in _plans(read)


def _windows(df: DataFrame, way: str) -> DataFrame:
    window = F.window("event_time", "5 seconds")
    counted = df.groupBy(window).count()
    return counted.select(F.lit(way), F.unix_millis("window.start") - DAY, "count")


def _handled(df: DataFrame) -> DataFrame:
    """Name the output that each row is in, and how late the row is."""
    keyed = df.withColumns(
        {
            "key": F.col("key").cast("string"),
            "number": F.col("offset"),
            "shown": F.col("value").cast("string"),
        }
    )
    visits = process(keyed, Visits(), columns=["number", "shown"], buckets=2)
    return visits.frame.select("output", F.lit(0), F.coalesce("late.late_by", F.lit(0)))


def _plans(df: DataFrame) -> str:
    execution = df._jdf.queryExecution()
    return str(execution.toString()) + str(execution.analyzed().toString())
