"""What a processor does wrong, and what it cannot be made of, is said where it is seen first."""

from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import process
from spark_source.errors import (
    InvalidOptionError,
    MissingColumnError,
    NoWatermarkError,
    StateStoreError,
)
from spark_source.processing import EventTimeProcessor
from tests.spark.feed import Feed, Followed
from tests.spark.processors import Misspelt, MisspeltSide, Mistyped, Timeouts
from tests.spark.session import STATE_STORE


@pytest.mark.parametrize(
    ("processor", "time_ms", "words"),
    [
        (Mistyped(), 10, "output 'main': column 'at' is timestamp[us, tz=UTC]"),
        (
            Timeouts(),
            None,
            "the row at offset 0 of segment 0 has no event time; filter such rows out",
        ),
    ],
    ids=["another type", "no event time"],
)
def test_what_a_processor_does_wrong_is_in_the_exception_of_the_query(
    spark: SparkSession,
    feed: Feed,
    checkpoint: str,
    processor: EventTimeProcessor,
    time_ms: int | None,
    words: str,
) -> None:
    feed.write(time_ms)
    feed.note(20)
    outputs = process(feed.load(spark), processor, buckets=1)
    with (
        pytest.raises(StreamingQueryException) as failed,
        Followed(outputs.output(), checkpoint) as followed,
    ):
        followed.fail()
    assert words in str(failed.value)


@pytest.mark.parametrize(
    ("made", "options", "error", "refused"),
    [
        (
            {"drop": "offset"},
            {},
            MissingColumnError,
            "no column 'offset' among key, event_time",
        ),
        ({}, {"columns": ["shown"]}, MissingColumnError, "no column 'shown'"),
        ({"event_time": "'now'"}, {}, InvalidOptionError, "is string; cast it to timestamp"),
        (
            {"event_time": "to_timestamp_ntz(key)"},
            {},
            InvalidOptionError,
            "timestamp_ntz; name its zone",
        ),
        ({"key": "array(key)"}, {}, InvalidOptionError, "keys have an order"),
        ({"key": "key COLLATE UTF8_LCASE"}, {}, InvalidOptionError, "compared by their bytes"),
        ({}, {"processor": Timeouts}, InvalidOptionError, "pass an instance of one"),
        ({}, {"at_end": "stop"}, InvalidOptionError, "'stop' is not one of drain, suspend"),
        ({}, {"buckets": 0}, InvalidOptionError, "0 is not an integer of at least 1"),
        ({}, {"buckets": "4"}, InvalidOptionError, "'4' is not an integer of at least 1"),
    ],
)
def test_a_stream_without_what_is_needed_is_refused_at_once(
    spark: SparkSession,
    feed: Feed,
    made: dict[str, str],
    options: dict[str, Any],
    error: type[Exception],
    refused: str,
) -> None:
    rows = feed.load(spark)
    for column, expression in made.items():
        is_dropped = column == "drop"
        rows = (
            rows.drop(expression) if is_dropped else rows.withColumn(column, F.expr(expression))
        )
    with pytest.raises(error, match=refused):
        process(rows, **{"processor": Timeouts(), **options})


def test_a_stream_without_a_watermark_and_an_output_that_is_none_are_refused(
    spark: SparkSession, feed: Feed
) -> None:
    with pytest.raises(NoWatermarkError, match=r"load the stream with read_stream\(\)"):
        process(_without_watermark(spark), Timeouts())
    with pytest.raises(InvalidOptionError, match="it is not a stream"):
        process(spark.read.format("tidegauge").options(**feed.options).load(), Timeouts())
    with pytest.raises(InvalidOptionError, match="'early' is not one of main, late"):
        process(feed.load(spark), Timeouts()).output("early")


def test_columns_that_spark_cannot_read_are_named_with_the_output_that_declares_them(
    spark: SparkSession, feed: Feed
) -> None:
    rows = feed.load(spark)
    with pytest.raises(InvalidOptionError) as raised:
        process(rows, Misspelt())
    assert str(raised.value).startswith(
        "option 'output': Misspelt declares the columns 'key strin, at timestamp', which Spark cannot "
        'read: [UNSUPPORTED_DATATYPE] Unsupported data type "STRIN"'
    )
    with pytest.raises(InvalidOptionError, match=r"side_outputs\['early'\].* columns 'a b c'"):
        process(rows, MisspeltSide())


def _without_watermark(spark: SparkSession) -> DataFrame:
    rates = spark.readStream.format("rate").load()
    places = [f"value AS {name}" for name in ("key", "segment", "offset", "value")]
    return rates.selectExpr("timestamp AS event_time", *places)


def test_another_state_store_is_refused_with_the_line_to_set(
    spark: SparkSession, feed: Feed
) -> None:
    rows = feed.load(spark)
    provider = spark.conf.get(STATE_STORE) or ""
    spark.conf.set(STATE_STORE, "org.example.Elsewhere")
    try:
        with pytest.raises(StateStoreError, match=rf'spark\.conf\.set\("{STATE_STORE}"'):
            process(rows, Timeouts())
    finally:
        spark.conf.set(STATE_STORE, provider)
