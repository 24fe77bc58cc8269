"""Event times before 1970: Spark's own operators drop them, so they are refused; ours take them."""

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource, count, process, tumbling, windowed
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.processors import Timeouts

_YEAR_1 = -62_135_596_800_000
_EARLY = [_YEAR_1, -2_000, 0, 1]


@pytest.fixture
def early(feed: Feed) -> Feed:
    """A stream with four events, all on time, of which the first three are too early for Spark."""
    feed.note(-63_000_000_000_000 - DAY)
    feed.write(*(time - DAY for time in _EARLY))
    return feed


def _times(df: DataFrame) -> DataFrame:
    return df.select(F.unix_millis("event_time"), "late")


def test_before_sparks_own_operators_an_early_time_fails_with_its_place_and_the_cure(
    spark: SparkSession, early: Feed, checkpoint: str
) -> None:
    told = (
        r"event time -62135596800000 \(segment 0, offset 0\): Spark's own operators drop event "
        "times before 1970-01-01T00:00:00.001Z: use windowed or process, or operators='none' if "
        "nothing above is stateful"
    )
    with (
        Followed(_times(early.load(spark)), checkpoint) as followed,
        pytest.raises(StreamingQueryException, match=told),
    ):
        followed.query.processAllAvailable()


def test_early_times_may_be_read_as_null_or_as_they_are(
    spark: SparkSession, early: Feed, checkpoint: str
) -> None:
    nulls = _times(early.load(spark, outOfRange="null"))
    rows = _times(early.load(spark, operators="none"))
    with Followed(nulls.union(rows), checkpoint) as followed:
        followed.query.processAllAvailable()
    found = sorted(followed.rows, key=str)
    assert found == sorted(
        [(None, False)] * 3 + [(1, False)] + [(time, False) for time in _EARLY], key=str
    )


def test_a_batch_read_takes_early_times(spark: SparkSession, early: Feed) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    rows = _times(spark.read.format("tidegauge").options(**early.options).load()).collect()
    assert list(map(tuple, rows)) == [(time, False) for time in _EARLY]


@pytest.mark.every_spark
def test_windowed_counts_early_rows_and_calls_none_late(
    spark: SparkSession, early: Feed, checkpoint: str
) -> None:
    modes: list[dict[str, Any]] = [{"operators": "windows"}, {"outOfRange": "null"}]
    both = early.load(spark, **modes[0]).union(early.load(spark, **modes[1]))
    counted = windowed(both, tumbling("2 seconds"), key="key", aggregates={"n": count()})
    rows = counted.frame.select(
        F.unix_millis("result.window.start"), "result.n", "late.late_by"
    )
    with Followed(rows, checkpoint) as followed:
        followed.query.processAllAvailable()
        early.note(10_000)
        followed.until(lambda: len(followed.rows) == 3, "all windows")
    assert sorted(followed.rows) == [(_YEAR_1, 2, None), (-2_000, 2, None), (0, 4, None)]


def _guards(df: DataFrame) -> int:
    plan: str = df._jdf.queryExecution().analyzed().toString()
    return plan.count("raise_error(")


@pytest.mark.every_spark
def test_process_lifts_the_guard_from_what_keeps_no_state_and_leaves_it_elsewhere(
    spark: SparkSession, feed: Feed
) -> None:
    names = spark.createDataFrame([("k", 1)], "key string, place long")
    load = feed.load(spark)
    load.createOrReplaceTempView("early")
    once = feed.load(spark, dedup_horizon="1 hour").dropDuplicatesWithinWatermark(["value"])
    other = feed.load(spark).selectExpr("event_time AS at", "offset AS o")
    frames: dict[str, DataFrame] = {
        "filtered": load.where("NOT late").withColumn("value", F.lit("v")),
        "united": load.unionByName(feed.load(spark).repartition(2)),
        "enriched": load.join(names, "key", "left"),
        "SQL": spark.sql("SELECT event_time, key, value, segment, offset FROM early"),
        "deduplicated": once,
        "joined": load.join(other, F.expr("offset = o AND at > event_time")),
        "deduplicated in part": once.unionByName(load),
    }

    def of_ours(df: DataFrame) -> Any:
        return _guards(process(df, Timeouts()).frame)

    assert {name: (_guards(df), of_ours(df)) for name, df in frames.items()} == {
        "filtered": (1, 0),
        "united": (2, 0),
        "enriched": (1, 0),
        "SQL": (1, 0),
        "deduplicated": (1, 1),
        "joined": (2, 2),
        "deduplicated in part": (2, 1),
    }
