"""Process functions on Spark: what the pure operator says, in real queries."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import Outputs, process
from spark_source.errors import (
    InvalidOptionError,
    MissingColumnError,
    NoWatermarkError,
    StateStoreError,
)
from spark_source.processing import EventTimeProcessor, ProcessOperator
from tests.effort import Effort
from tests.server import ServerProcess
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.processors import (
    Broken,
    Misspelt,
    MisspeltSide,
    Mistyped,
    Timeouts,
    Visits,
)
from tests.spark.restarts import crashed
from tidegauge.event_time import END_OF_TIME

# Batches end at the same marks then, so that the same rows are late after a restart.
EACH_MARK = {"admission": "marks", "maxEventTimePerTrigger": "1 ms"}

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


# What is written and the time noted then, step by step; None seals. Rows are late in steps 3 and 5.
STORY: list[tuple[dict[str, list[int]], int | None]] = [
    ({"a": [30, 0, 10], "b": [5]}, 12),
    ({"a": [12, 12], "c": [40]}, 31),
    ({"b": [30, 31]}, 45),
    ({"a": [100], "b": [70]}, 71),
    ({"c": [70]}, None),
]


def visits(df: DataFrame, **options: Any) -> Outputs:
    """Process what a user's own select makes of a stream, whose times get microseconds."""
    time = F.timestamp_micros(F.unix_micros("event_time") + 999 - 7 * F.col("offset"))
    touched = (
        df.where("key <> 'unseen'")
        .select(
            time.alias("event_time", metadata=df.schema["event_time"].metadata),
            *("segment", "offset", "value", F.upper("key").alias("place")),
        )
        .withColumn("parsed", F.from_json(F.col("value").cast("string"), "x string"))
        .withColumn("number", F.col("offset") * 2)
        .withColumn("shown", F.coalesce("parsed.x", F.lit("nothing")))
    )
    return process(touched, Visits(), key="place", columns=["number", "shown"], **options)


def play(feed: Feed, followed: Followed) -> None:
    for written, noted in STORY:
        for key, times in written.items():
            feed.write(*times, key=key, value=json.dumps({"x": key}))
        if noted is None:
            feed.seal()
            followed.until(lambda: not followed.query.isActive or drained(followed), "the end")
        else:
            feed.note(noted)
            followed.until_read(noted)
    followed.query.processAllAvailable()


def drained(followed: Followed) -> bool:
    progress = followed.query.lastProgress
    return progress is not None and progress["eventTime"].get("watermark", "").startswith(
        "9999"
    )


def expected() -> dict[str, list[tuple[Any, ...]]]:
    """Run the pure operator over the story."""
    operator = ProcessOperator(Visits(), columns=["number", "shown"])
    state, bound, offset = None, None, 0
    found: dict[str, list[tuple[Any, ...]]] = {"main": [], "silent": [], "late": []}
    for written, noted in STORY:
        rows = []
        for key, times in written.items():
            for time in times:
                time_us = (DAY + time) * 1_000 + 999 - 7 * offset
                rows.append((key.upper(), time_us, 0, offset, 2 * offset, key))
                offset += 1
        reached = END_OF_TIME if noted is None else DAY + noted
        for step_bound, step_rows in ((bound, rows), (reached, [])):
            step = operator.step(state, step_bound, step_rows)
            state = step.state
            found["main"] += [(row[0], local(row[1]), *row[2:]) for row in step.out]
            found["silent"] += [(row[0], local(row[1])) for row in step.side["silent"]]
            found["late"] += [
                (row[0], local(_EPOCH + timedelta(microseconds=row[1])), *row[2:])
                for row in step.late
            ]
        bound = reached
    return {name: by_key(rows) for name, rows in found.items()}


def local(moment: datetime) -> datetime:
    return moment.astimezone().replace(tzinfo=None)


def by_key(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Order rows by key, and those of a key as they came."""
    return sorted(rows, key=lambda row: row[0])


def told(frames: Iterable[tuple[Any, ...]]) -> dict[str, list[tuple[Any, ...]]]:
    """Divide rows of all outputs over these."""
    found: dict[str, list[tuple[Any, ...]]] = {"main": [], "silent": [], "late": []}
    places = {"main": 1, "silent": 2, "late": 3}
    for row in frames:
        found[row[0]].append(tuple(row[places[row[0]]]))
    return {name: by_key(rows) for name, rows in found.items()}


@pytest.fixture(scope="module")
def whole_feed(shared_server: ServerProcess) -> Iterator[Feed]:
    with Feed(shared_server.url, "spark/processed") as one:
        one.create()
        yield one


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, whole_feed: Feed, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Followed]:
    """A query that nothing disturbed, and its checkpoint."""
    checkpoint = str(tmp_path_factory.mktemp("whole") / "checkpoint")
    outputs = visits(whole_feed.load(spark, **EACH_MARK), buckets=3)
    with Followed(outputs.frame, checkpoint) as followed:
        play(whole_feed, followed)
    return checkpoint, followed


@pytest.mark.every_spark
def test_all_outputs_are_those_of_the_operator_and_the_end_of_time_drains(
    whole: tuple[str, Followed],
) -> None:
    found = told(whole[1].rows)
    assert found == expected()
    assert len(found["late"]) == 2
    assert found["silent"][-1] == ("C", local(_EPOCH + timedelta(milliseconds=DAY + 55)))
    assert whole[1].dropped == 0


def test_the_progress_counts_late_rows_and_what_is_held(whole: tuple[str, Followed]) -> None:
    counts = [
        metrics.asDict()
        for progress in whole[1].query.recentProgress
        for name, metrics in progress["observedMetrics"].items()
        if name.startswith("tidegauge-process-")
    ]
    assert sum(one["late"] or 0 for one in counts) == 2
    assert counts[0] == {"late": 0, "keys": 2, "buffered": 4, "timers": 0}
    assert max(one["timers"] or 0 for one in counts) == 3


@pytest.mark.every_spark
def test_a_crash_between_offset_log_and_commit_log_repeats_the_batch_as_it_was(
    spark: SparkSession,
    whole_feed: Feed,
    whole: tuple[str, Followed],
    tmp_path: Path,
    effort: Effort,
) -> None:
    checkpoint, before = whole
    numbers = sorted(before.batches)
    for batch in Random(1).sample(numbers, effort.times("crashes", short=2, long=len(numbers))):
        copy = crashed(checkpoint, tmp_path / str(batch), batch, committed=False)
        outputs = visits(whole_feed.load(spark, **EACH_MARK), buckets=3)
        with Followed(outputs.frame, copy) as again:
            again.until(lambda again=again: drained(again), "the end")  # type: ignore[misc]
            again.query.processAllAvailable()
        # After the start there may be fewer batches than there were behind the crash.
        kept = {number: rows for number, rows in before.batches.items() if number < batch}
        collected = {**kept, **again.batches}
        assert min(again.batches) == batch
        assert again.batches[batch] == before.batches[batch]
        assert (
            told(row for number in sorted(collected) for row in collected[number]) == expected()
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"buckets": 4}, "was saved with buckets = 3, and the query has 4; set it back"),
        (
            {"buckets": 3, "columns": ["number"]},
            "was saved with columns = ['number', 'shown'], and the query has ['number']",
        ),
    ],
)
def test_another_number_of_buckets_and_other_columns_are_refused_on_restart(
    spark: SparkSession,
    whole_feed: Feed,
    whole: tuple[str, Followed],
    tmp_path: Path,
    options: dict[str, Any],
    words: str,
) -> None:
    touched = (
        whole_feed.load(spark, **EACH_MARK)
        .withColumn("number", F.col("offset") * 2)
        .withColumn("shown", F.lit("nothing"))
    )
    outputs = process(touched, Visits(), **{"columns": ["number", "shown"], **options})
    copy = crashed(whole[0], tmp_path, 2, committed=True)
    with (
        pytest.raises(StreamingQueryException) as failed,
        Followed(outputs.frame, copy) as followed,
    ):
        followed.until(lambda: False, "the refusal")
    assert words in str(failed.value)


@pytest.mark.parametrize(
    ("processor", "time_ms", "words"),
    [
        (
            Broken(),
            10,
            "on_event failed for the event at offset 0 of segment 0, key 'k', at 86400010",
        ),
        (Mistyped(), 10, "output 'main': column 'at' is timestamp[us, tz=UTC]"),
        (
            Timeouts(),
            None,
            "the row at offset 0 of segment 0 has no event time; filter such rows out",
        ),
    ],
)
def test_what_a_processor_does_wrong_is_told_in_the_exception_of_the_query(
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
        followed.until(lambda: False, "the failure")
    assert words in str(failed.value)


def test_a_stream_without_what_is_needed_is_refused_at_once(
    spark: SparkSession, feed: Feed
) -> None:
    rows = feed.load(spark)
    with pytest.raises(MissingColumnError, match="no column 'offset' among key, event_time"):
        process(rows.drop("offset"), Timeouts())
    with pytest.raises(MissingColumnError, match="no column 'shown'"):
        process(rows, Timeouts(), columns=["shown"])
    with pytest.raises(NoWatermarkError, match=r"load the stream with read_stream\(\)"):
        process(_without_watermark(spark), Timeouts())
    with pytest.raises(InvalidOptionError, match="it is not a stream"):
        process(spark.read.format("tidegauge").options(**feed.options).load(), Timeouts())
    with pytest.raises(InvalidOptionError, match="is string; cast it to timestamp"):
        process(rows.withColumn("event_time", F.lit("now")), Timeouts())
    with pytest.raises(InvalidOptionError, match="timestamp_ntz; name its zone"):
        process(rows.withColumn("event_time", F.expr("to_timestamp_ntz(key)")), Timeouts())
    with pytest.raises(InvalidOptionError, match="keys have an order"):
        process(rows.withColumn("key", F.array("key")), Timeouts())
    with pytest.raises(InvalidOptionError, match="pass an instance of one"):
        process(rows, Timeouts)  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="'stop' is not one of drain, suspend"):
        process(rows, Timeouts(), at_end="stop")  # type: ignore[arg-type]
    with pytest.raises(InvalidOptionError, match="0 is not at least 1"):
        process(rows, Timeouts(), buckets=0)
    with pytest.raises(InvalidOptionError, match="'early' is not one of main, late"):
        process(rows, Timeouts()).output("early")


def test_columns_that_spark_cannot_read_are_told_with_the_output_that_declares_them(
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
    provider = spark.conf.get(_PROVIDER) or ""
    spark.conf.set(_PROVIDER, "org.example.Elsewhere")
    try:
        with pytest.raises(StateStoreError, match=rf'spark\.conf\.set\("{_PROVIDER}"'):
            process(rows, Timeouts())
    finally:
        spark.conf.set(_PROVIDER, provider)
