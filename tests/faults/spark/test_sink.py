"""What may not be noted as a promise, and how a query that writes to a stream says so."""

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource, as_events, write_stream
from spark_source.errors import GuessedWatermarkError, InvalidOptionError, UnclearDelayError
from tests.spark.feed import DAY, Feed
from tests.spark.targets import Target
from tidegauge.errors import UnknownStreamError

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def _counted(df: DataFrame) -> DataFrame:
    return df.groupBy("key", F.window("event_time", "5 seconds")).count()


def _write(df: DataFrame, target: Target, checkpoint: str, **options: Any) -> None:
    """Write until nothing is left to do."""
    place: dict[str, Any] = {"url": target.url, "stream": target.stream}
    query = write_stream(df, checkpoint=checkpoint, trigger="availableNow", **place | options)
    assert query.awaitTermination(120)


def _bare(df: DataFrame, target: Target) -> Any:
    writer = df.writeStream.format("tidegauge").trigger(availableNow=True)
    return writer.options(url=target.url, stream=target.stream)


def test_a_frame_is_written_as_a_batch(spark: SparkSession, target: Target) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    rows = spark.range(4, numPartitions=2).selectExpr(
        "concat('k', id) AS key", f"{DAY} + id AS event_time", "string(id) AS value"
    )
    given = {"url": target.url, "stream": target.stream, "writer": "nightly"}
    rows.write.format("tidegauge").mode("append").options(**given, noteTime=DAY + 100).save()
    assert target.rows() == [(f"k{n}", n, str(n).encode()) for n in range(4)]
    assert target.watermark == 100


def test_frames_that_are_no_events_are_refused(spark: SparkSession, feed: Feed) -> None:
    rows = feed.load(spark)
    with pytest.raises(InvalidOptionError, match="'event_time': is of type string"):
        as_events(rows, event_time="key")
    with pytest.raises(InvalidOptionError, match="'value': is of type bigint"):
        as_events(rows, value="offset")


def test_a_wrong_target_is_refused_at_once_by_one_line(
    spark: SparkSession, feed: Feed, target: Target, checkpoint: str
) -> None:
    rows = feed.load(spark).select("key", "event_time")

    def refused(stream: str, kind: type[Exception]) -> str:
        with pytest.raises(kind) as raised:
            write_stream(
                rows,
                url=target.url,
                stream=stream,
                event_time="event_time",
                checkpoint=checkpoint,
            )
        assert len(raised.traceback) <= 6  # none of the client's own, and none of Spark's
        return str(raised.value)

    assert refused("demo none", InvalidOptionError).endswith("write scope/stream")
    missing = refused("demo/none", UnknownStreamError)
    assert missing.startswith("unknown_stream: there is no stream demo/none; to create it")


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


def test_a_checkpoint_of_the_session_is_refused_with_the_cure(
    spark: SparkSession, feed: Feed, target: Target, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = _bare(as_events(feed.load(spark)), target).start()
        with pytest.raises(StreamingQueryException, match="Set it on the query itself"):
            query.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
