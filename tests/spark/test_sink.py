"""What a query emits is in the target once, with the time below which nothing will come."""

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import TidegaugeDataSource, as_events, write_stream
from spark_source.errors import GuessedWatermarkError, InvalidOptionError, UnclearDelayError
from tests.server import ServerProcess
from tests.spark.draining import DRAINS, finish
from tests.spark.feed import DAY, Feed
from tests.spark.targets import Target
from tidegauge.event_time import END_OF_TIME

_NUMBERS = count(1)
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


@pytest.fixture
def target(shared_server: ServerProcess) -> Iterator[Target]:
    with Target(shared_server.url, f"spark/target-{next(_NUMBERS)}") as one:
        one.create(segments=2)
        yield one


def _counted(df: DataFrame, size: str = "5 seconds") -> DataFrame:
    return df.groupBy("key", F.window("event_time", size)).count()


def _write(df: DataFrame, target: Target, checkpoint: str, **options: Any) -> StreamingQuery:
    """Write until nothing is left to do."""
    query = write_stream(
        df,
        url=target.url,
        stream=target.stream,
        checkpoint=checkpoint,
        trigger="availableNow" if DRAINS else None,
        **options,
    )
    finish(query)
    return query


@pytest.mark.every_spark
def test_windows_arrive_once_with_sparks_watermark_as_that_of_the_target(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    feed.write(1_000, 4_000, key="a")
    feed.write(4_500, 7_000, key="b")
    feed.note(6_000)
    counted = _counted(feed.load(spark, operators="windows"))
    query = _write(counted, target, checkpoint, name="hourly")
    assert query.name == "hourly"
    assert target.counts() == [("a", 5_000, 2), ("b", 5_000, 1)]
    assert target.watermark == 6_000
    feed.note(12_000)
    _write(counted, target, checkpoint)
    assert target.counts() == [("a", 5_000, 2), ("b", 5_000, 1), ("b", 10_000, 1)]
    assert target.watermark == 12_000
    (first, *_) = target.rows()
    assert json.loads(first[2]) == {
        "key": "a",
        "window": {"start": "1970-01-02T00:00:00.000Z", "end": "1970-01-02T00:00:05.000Z"},
        "count": 2,
    }


def test_rows_without_state_bring_the_bound_of_what_was_read(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    feed.write(1_000, 9_000, key="a", value="x")
    passed = feed.load(spark).select("key", "event_time", "value")
    _write(passed, target, checkpoint, event_time="event_time", value="value")
    assert target.watermark is None
    assert target.rows() == [("a", 1_000, b"x"), ("a", 9_000, b"x")]
    feed.note(7_000)
    _write(passed, target, checkpoint, event_time="event_time", value="value")
    assert len(target.rows()) == 2
    assert target.watermark == 7_000  # an empty batch notes as well


def test_the_end_of_what_is_read_seals_the_target_once(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    feed.write(1_000, 6_000, key="a")
    feed.note(6_000)
    feed.seal()
    counted = _counted(feed.load(spark))
    _write(counted, target, checkpoint, seal=True)
    assert target.counts() == [("a", 5_000, 1), ("a", 10_000, 1)]
    assert target.watermark == END_OF_TIME
    _write(counted, target, checkpoint, seal=True)  # has nothing to add
    assert len(target.rows()) == 2


def test_without_seal_the_target_stays_open_where_it_was(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    counted = _counted(feed.load(spark))
    feed.write(1_000, 6_000, key="a")
    feed.note(6_000)
    _write(counted, target, checkpoint)
    feed.seal()
    _write(counted, target, checkpoint)
    assert len(target.rows()) == 2
    assert target.watermark == 5_999


@pytest.mark.parametrize("tasks", [1, 6])
def test_more_than_a_request_is_published_as_one_batch(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str, tasks: int
) -> None:
    """Of one task, which stages it, or of several that each have too little for that."""
    feed.write(*range(6), key="a")
    feed.note(1_000)
    large = F.repeat(F.col("key"), 4_000_000).alias("value")
    rows = feed.load(spark).select("event_time", F.col("offset").alias("key"), large)
    _write(rows.repartition(tasks), target, checkpoint, event_time="event_time", value="value")
    found = [(key, time, len(value)) for key, time, value in target.rows()]
    assert found == [(str(n), n, 4_000_000) for n in range(6)]
    assert target.watermark == 1_000


def _bare(df: DataFrame) -> Any:
    return df.writeStream.format("tidegauge").trigger(availableNow=True)


def test_a_query_with_a_wrong_target_fails_with_the_cure(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000)
    query = write_stream(
        feed.load(spark),
        url=feed.url,
        stream="spark/none",
        event_time="event_time",
        checkpoint=checkpoint,
    )
    cure = "no stream spark/none; to create it: tidegauge create spark/none"
    with pytest.raises(StreamingQueryException, match=cure):
        query.awaitTermination(60)


def test_frames_that_are_no_events_are_refused(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    query = (
        _bare(feed.load(spark))
        .options(url=target.url, stream=target.stream, checkpointLocation=checkpoint)
        .start()
    )
    with pytest.raises(StreamingQueryException, match=r"write_stream\(\) makes them"):
        query.awaitTermination(60)
    rows = feed.load(spark)
    feed.write(1_000)
    null_keys = {"key": "nullif(key, key)", "event_time": "event_time"}
    with pytest.raises(StreamingQueryException, match="'key': is null in a row"):
        _write(rows, target, f"{checkpoint}-null", **null_keys)
    year_10000 = {"key": "'the row'", "event_time": "253402300800000"}
    with pytest.raises(
        StreamingQueryException, match=r"no reader can hold 253402300800000.*key is 'the row'"
    ):
        _write(rows, target, f"{checkpoint}-10000", **year_10000)
    with pytest.raises(InvalidOptionError, match="'event_time': is of type string"):
        as_events(rows, event_time="key")
    with pytest.raises(InvalidOptionError, match="'value': is of type bigint"):
        as_events(rows, value="offset")


def test_corrections_need_a_delay_or_are_flagged(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    feed.write(1_000, key="a")
    feed.note(2_000)
    panes = feed.load(spark).select("key", "event_time", F.lit("late").alias("pane"))
    with pytest.raises(UnclearDelayError, match="the allowed lateness of its windows"):
        _write(panes, target, checkpoint, event_time="event_time")
    _write(panes, target, checkpoint, event_time="event_time", late_panes="flagged")
    assert target.watermark == 2_000


def test_a_query_with_a_guessed_side_is_refused_at_its_start(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    ours = feed.load(spark).selectExpr("key", "event_time")
    rate = spark.readStream.format("rate").load()
    guessed = rate.selectExpr("string(value) AS key", "timestamp AS event_time").withWatermark(
        "event_time", "1 hour"
    )
    for df in (_counted(guessed), _counted(ours.unionByName(guessed))):
        with pytest.raises(
            GuessedWatermarkError, match=r"of 'rate'; load that with read_stream\(\)"
        ):
            _write(df, target, checkpoint)
    spark.conf.set(_POLICY, "max")
    try:
        with pytest.raises(GuessedWatermarkError, match=f"set {_POLICY} to 'min'"):
            _write(_counted(ours), target, checkpoint)
    finally:
        spark.conf.unset(_POLICY)
    assert target.writers == {}


def test_a_guess_over_a_stream_of_ours_ends_the_query_before_it_is_noted(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    feed.write(1_000, 9_000, key="a")
    feed.note(2_000)
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options).load()
    guessed = loaded.where("NOT tick").withWatermark("event_time", "0 seconds")
    with pytest.raises(StreamingQueryException, match="its sources have all reached"):
        _write(_counted(guessed), target, checkpoint)
    assert (target.rows(), target.watermark) == ([], None)


def test_a_checkpoint_of_the_session_is_refused_with_the_cure(
    spark: SparkSession, feed: Feed, target: Target, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = (
            _bare(as_events(feed.load(spark)))
            .options(url=target.url, stream=target.stream)
            .start()
        )
        with pytest.raises(StreamingQueryException, match="Set it on the query itself"):
            query.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")


def test_a_batch_write_is_one_transaction_and_notes_only_when_told(
    spark: SparkSession, target: Target
) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    rows = spark.range(4, numPartitions=2).selectExpr(
        "concat('k', id) AS key", f"{DAY} + id AS event_time", "string(id) AS value"
    )

    def write(**options: str | int) -> None:
        given = {"url": target.url, "stream": target.stream, "writer": "nightly"} | options
        rows.write.format("tidegauge").mode("append").options(**given).save()

    write()
    written = [(f"k{n}", n, str(n).encode()) for n in range(4)]
    assert (target.rows(), target.watermark) == (written, None)
    write(noteTime=DAY + 100)
    assert len(target.rows()) == 8
    assert target.watermark == 100
    assert target.writers == {"nightly": "left"}
