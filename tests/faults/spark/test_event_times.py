"""Event times that are inside the value, beyond what Spark holds, or before 1970."""

from functools import reduce
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource, count, process, tumbling, watermarked, windowed
from spark_source.errors import InvalidOptionError
from spark_source.frames.event_time import timed_by
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.processors import Timeouts

INSIDE = "timestamp_millis(bigint(get_json_object(string(value), '$.at')))"
_BEYOND = 253_402_300_800_000
"""The first ms of the year 10000."""
_YEAR_1 = -62_135_596_800_000
_EARLY = [_YEAR_1, -2_000, 0, 1]


def _write(feed: Feed, *times: int | None) -> None:
    """Write events whose time is inside the value alone, a day later."""
    for at in times:
        feed.write(None, value="{}" if at is None else f'{{"at": {DAY + at}}}')


def _judged(df: DataFrame, load: str) -> DataFrame:
    return df.select(F.lit(load), "offset", F.unix_millis("event_time") - DAY, "late_by")


def test_lateness_slices_and_range_are_those_of_an_expression(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    beyond: dict[str, Any] = {"outOfRange": "null"}
    slice_ = {"startingTime": DAY + 2_000, "endingTime": DAY + 11_000}
    loads = [
        _judged(feed.load(spark, event_time=INSIDE, name="source", **beyond), "SQL"),
        _judged(feed.load(spark, event_time=F.expr(INSIDE), **beyond), "Column"),
        _judged(feed.load(spark, event_time=INSIDE, **beyond, **slice_), "slice"),
    ]
    feed.write(9_000, value=f'{{"at": {DAY + 1_000}}}')  # what is stored counts for nothing
    feed.note(10_000)
    with Followed(loads[0].union(loads[1]), checkpoint) as followed:
        followed.until_read(10_000)
        _write(feed, 2_000, 11_000, None, _BEYOND - DAY)
        feed.note(12_000)
        followed.until_read(12_000)
        late = sum(counts.late for counts in followed.observed("source"))
    judged = [(0, 1_000, None), (1, 2_000, 8_000), (2, 11_000, None)]
    nulls = [(3, None, None), (4, None, None)]
    for load in ("SQL", "Column"):
        assert [row[1:] for row in followed.rows if row[0] == load] == [*judged, *nulls]
    assert late == 1
    with Followed(loads[2], f"{checkpoint}-slice") as followed:
        followed.until_read(12_000)
    assert [row[1:] for row in followed.rows] == [(1, 2_000, None), *nulls]


@pytest.mark.parametrize(
    ("local", "time_us"),
    [
        ("timestamp_ntz'2024-07-01 12:00:00.000123'", 1_719_828_000_000_123),
        ("date'2024-07-01'", 1_719_784_800_000_000),
    ],
)
def test_a_time_without_a_zone_is_refused_with_a_cast_that_no_session_changes(
    spark: SparkSession, local: str, time_us: int
) -> None:
    df = spark.range(1).selectExpr(f"{local} AS at")
    with pytest.raises(InvalidOptionError, match="name its zone: event_time=") as raised:
        timed_by(df, F.col("at"))
    cure = str(raised.value).split('"')[1]
    zone = spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for session_zone in ("Asia/Tokyo", "UTC"):
            spark.conf.set("spark.sql.session.timeZone", session_zone)
            found += timed_by(df, F.expr(cure)).select(F.unix_micros("event_time")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))
    assert found == [(time_us,)] * 2


@pytest.mark.parametrize(
    ("options", "given", "refused"),
    [
        ({}, INSIDE, "event_time= of watermarked.. and the option's value 'expression'"),
        ({"eventTime": "expression"}, None, "go together"),
        ({"eventTime": "expression"}, "value", "is of type binary; cast it to timestamp"),
    ],
)
def test_where_the_time_is_has_to_be_said_once_and_clearly(
    spark: SparkSession, feed: Feed, options: dict[str, Any], given: str | None, refused: str
) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options, **options).load()
    with pytest.raises(InvalidOptionError, match=refused):
        watermarked(loaded, event_time=given)


def test_a_time_before_1970_fails_with_its_place_and_the_cure(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, _YEAR_1 - DAY)
    rows = feed.load(spark).select("offset", "event_time")
    refused = r"event time -62135596800000 \(segment 0, offset 1\): .* operators='none'"
    with (
        Followed(rows, checkpoint) as followed,
        pytest.raises(StreamingQueryException, match=refused),
    ):
        followed.fail()


@pytest.mark.every_spark
def test_early_times_are_read_as_null_or_as_they_are_and_our_windows_count_them(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.note(-63_000_000_000_000 - DAY)
    feed.write(*(at - DAY for at in _EARLY))
    nulls, guarded, unguarded = (
        feed.load(spark, **how)
        for how in ({"outOfRange": "null"}, {"operators": "windows"}, {"operators": "none"})
    )
    counted = windowed(
        guarded.union(nulls), tumbling("2 seconds"), key="key", aggregates={"n": count()}
    )
    frames = {
        "nulls": nulls.select(F.unix_millis("event_time"), F.lit(1), "late_by"),
        "as they are": unguarded.select(F.unix_millis("event_time"), F.lit(1), "late_by"),
        "windows": counted.frame.select(
            F.unix_millis("result.window.start"), "result.n", "late.late_by"
        ),
    }
    with Followed(_united(frames), checkpoint) as followed:
        followed.query.processAllAvailable()
        feed.note(10_000)
        followed.until_read(10_000)
    found = {name: [row[1:] for row in followed.rows if row[0] == name] for name in frames}
    assert sorted(found["nulls"], key=str) == [(1, 1, None), *[(None, 1, None)] * 3]
    assert sorted(found["as they are"]) == [(at, 1, None) for at in _EARLY]
    assert sorted(found["windows"]) == [(_YEAR_1, 2, None), (-2_000, 2, None), (0, 4, None)]


def _united(frames: dict[str, DataFrame]) -> DataFrame:
    tagged = (
        df.toDF("at", "n", "late_by").select(F.lit(name), "*") for name, df in frames.items()
    )
    return reduce(DataFrame.union, tagged)


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

    def of_ours(df: DataFrame) -> int:
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


def _guards(df: DataFrame) -> int:
    plan: str = df._jdf.queryExecution().analyzed().toString()
    return plan.count("raise_error(")
