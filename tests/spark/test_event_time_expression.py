"""Event times inside the value: the source's judgement applies to what an expression takes out."""

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import TidegaugeDataSource, watermarked
from spark_source.errors import InvalidOptionError
from spark_source.frames.event_time import timed_by
from tests.spark.feed import DAY, Feed, Followed

INSIDE = "timestamp_millis(bigint(get_json_object(string(value), '$.at')))"


def _write(feed: Feed, *times: int | None) -> None:
    """Write events whose time is inside the value alone, a day later."""
    for one in times:
        feed.write(None, value="{}" if one is None else f'{{"at": {DAY + one}}}')


def _rows(df: DataFrame) -> DataFrame:
    return df.select("offset", F.unix_millis("event_time") - DAY, "late", "late_by")


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


@pytest.mark.parametrize("form", [str, F.expr], ids=["SQL", "Column"])
def test_lateness_is_that_of_the_expression(
    spark: SparkSession, feed: Feed, checkpoint: str, form: Callable[[str], Column | str]
) -> None:
    _write(feed, 1_000)
    feed.note(10_000)
    rows = _rows(feed.load(spark, event_time=form(INSIDE), name="source"))
    with Followed(rows, checkpoint) as followed:
        followed.until_read(10_000)
        _write(feed, 2_000, 11_000, None)
        followed.until(lambda: len(followed.rows) == 4, "all rows")
        followed.query.processAllAvailable()
        progress = followed.query.recentProgress
        late = [
            one["observedMetrics"]["source"].late for one in progress if one["numInputRows"]
        ]
    assert followed.rows == [
        (0, 1_000, False, None),
        (1, 2_000, True, 8_000),
        (2, 11_000, False, None),
        (3, None, False, None),
    ]
    assert sum(late) == 1


def test_a_slice_of_time_is_one_of_the_expression(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(9_000, value=f'{{"at": {DAY + 1_000}}}')  # what is stored counts for nothing
    _write(feed, 3_000, 2_000, None, 4_000)
    feed.note(5_000)
    times = {"startingTime": DAY + 2_000, "endingTime": DAY + 4_000}
    rows = _rows(feed.load(spark, event_time=INSIDE, **times))
    with Followed(rows, checkpoint) as followed:
        followed.until_read(5_000)
    assert [row[:2] for row in followed.rows] == [(1, 3_000), (2, 2_000), (3, None)]


def test_a_time_that_spark_cannot_hold_is_told_with_its_place_or_null(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    _write(feed, 1_000, 253_402_300_800_000 - DAY)
    told = (
        r"event time 253402300800000 at offset 1 of segment 0 is outside what Spark can hold .* "
        "or set outOfRange=null to read such times as null"
    )
    with (
        Followed(_rows(feed.load(spark, event_time=INSIDE)), checkpoint) as failing,
        pytest.raises(StreamingQueryException, match=told),
    ):
        failing.query.processAllAvailable()
    rows = _rows(feed.load(spark, event_time=INSIDE, outOfRange="null"))
    with Followed(rows, checkpoint + "-null") as followed:
        followed.query.processAllAvailable()
    assert followed.rows == [(0, 1_000, False, None), (1, None, False, None)]


@pytest.mark.parametrize(
    ("options", "given", "told"),
    [
        ({}, INSIDE, "event_time= of watermarked.. and the option's value 'expression'"),
        ({"eventTime": "expression"}, None, "go together"),
        ({"eventTime": "expression"}, "value", "is of type binary; cast it to timestamp"),
    ],
)
def test_where_the_time_is_has_to_be_said_once_and_clearly(
    spark: SparkSession, feed: Feed, options: dict[str, Any], given: str | None, told: str
) -> None:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(**feed.options, **options).load()
    with pytest.raises(InvalidOptionError, match=told):
        watermarked(loaded, event_time=given)
