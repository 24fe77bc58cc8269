"""The tests of exactness are worth something: four seeded bugs make them fail."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from spark_source import TidegaugeDataSource, watermarked
from spark_source.data_source import StreamReader
from spark_source.options.load import read_options
from tests.spark.feed import Feed
from tests.spark.restarts import BATCHES, crashed, run, run_through
from tests.spark.scenarios import STORIES, tell

SOAK = pytest.mark.soak


def _with_bound(
    partitions: Sequence[InputPartition], bound: int | None
) -> Sequence[InputPartition]:
    return [replace(one, bound=bound) for one in partitions]  # type: ignore[type-var]


class _HighReader(StreamReader):
    """Hands over the bound and one ms."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        return _with_bound(super().partitions(start, end), end["bound"] + 1)


class _BehindReader(StreamReader):
    """Hands over the bound of the batch before."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        return _with_bound(super().partitions(start, end), start["bound"])


class _LiveReader(StreamReader):
    """Reads up to where the stream is now, whatever was planned."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        now = self.latestOffset(start, None)  # type: ignore[arg-type]
        return super().partitions(start, end | {"position": now["position"]})


class _SeededSource(TidegaugeDataSource):
    """The source itself, under another name; what derives from it has a bug."""

    reader_class = StreamReader

    @classmethod
    def name(cls) -> str:
        return f"tidegauge{cls.__name__}"

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802 (Spark's)
        return self.reader_class(read_options(dict(self.options)))


class HighSource(_SeededSource):
    reader_class = _HighReader


class BehindSource(_SeededSource):
    reader_class = _BehindReader


class LiveSource(_SeededSource):
    reader_class = _LiveReader


def _load(
    spark: SparkSession,
    feed: Feed,
    *,
    source: type[_SeededSource] = _SeededSource,
    operators: Any = "any",
    dedup_horizon: Any = None,
    **options: str,
) -> DataFrame:
    spark.dataSource.register(source)
    loaded = spark.readStream.format(source.name()).options(**feed.options, **options).load()
    return watermarked(loaded, operators=operators, dedup_horizon=dedup_horizon)


def test_without_a_seeded_bug_the_story_is_told(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    story = STORIES["dropDuplicates"]
    assert tell(feed, story, partial(_load, spark, feed), checkpoint) == story.told


@pytest.mark.parametrize(
    ("name", "watermarks"),
    [
        ("dropDuplicates", [0, 10_000, 20_000, 30_000]),
        pytest.param("transformWithState", [0, 10_000, 20_000, 30_000], marks=SOAK),
        pytest.param(
            "tumbling past the bound, windows", [0, 10_001, 20_001, 30_001], marks=SOAK
        ),
    ],
)
def test_a_watermark_one_millisecond_too_high_loses_the_event_at_the_bound(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str, watermarks: list[int]
) -> None:
    story = STORIES[name]
    load = partial(_load, spark, feed, source=HighSource, operators=story.operators)
    told = tell(feed, story, load, checkpoint)
    assert (told.early, told.late) != (story.told.early, story.told.late)
    assert told.dropped == 1
    assert told.watermarks == watermarks


@pytest.mark.parametrize(
    ("name", "watermarks"),
    [
        ("tumbling, windows", [0, 10_000, 20_000]),
        pytest.param("sliding, windows", [0, 10_000, 20_000], marks=SOAK),
        pytest.param("outer join", [0, 9_999, 19_999], marks=SOAK),
    ],
)
def test_a_watermark_one_batch_behind_holds_results_back(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str, watermarks: list[int]
) -> None:
    story = STORIES[name]
    load = partial(_load, spark, feed, source=BehindSource, operators=story.operators)
    told = tell(feed, story, load, checkpoint)
    assert told.early == []
    assert story.told.early != []
    assert told.watermarks == watermarks


@pytest.mark.parametrize(
    "name",
    ["a filter that nothing passes", pytest.param("filters everywhere", marks=SOAK)],
)
def test_ticks_that_are_filtered_below_the_barrier_stop_time(
    spark: SparkSession,
    feed: Feed,
    checkpoint: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(type(spark.range(1)), "observe", lambda df, *_: df)
    story = STORIES[name]
    load = partial(_load, spark, feed, operators=story.operators)
    told = tell(feed, story, load, checkpoint)
    assert 30_000 not in told.watermarks
    assert 30_000 in story.told.watermarks


def test_a_replay_that_reads_the_live_tail_counts_events_twice(
    spark: SparkSession, feed: Feed, checkpoint: str, tmp_path: Path
) -> None:
    load = partial(
        _load, spark, feed, source=LiveSource, operators="windows", admission="marks"
    )
    assert run_through(feed, load, checkpoint).batches == BATCHES
    with run(load, crashed(checkpoint, tmp_path, 0, committed=False)) as followed:
        followed.until_read(10_000)
        assert followed.rows == [(0, 2), (5_000, 6)]
