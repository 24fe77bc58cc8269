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
from tests.spark.feed import Feed, Followed
from tests.spark.restarts import crashed
from tests.spark.scenarios import expected, of_operators, tell, united


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


def _loads(
    spark: SparkSession, feed: Feed, source: type[_SeededSource] = _SeededSource, **options: str
) -> partial[DataFrame]:
    return partial(_load, spark, feed, source=source, **options)


@pytest.mark.every_spark
@pytest.mark.parametrize("operators", ["any", "windows"])
def test_an_event_at_exactly_the_bound_counts_results_come_with_the_bound_and_state_is_freed(
    spark: SparkSession, feed: Feed, checkpoint: str, operators: str
) -> None:
    names = of_operators(operators)
    assert tell(feed, names, partial(feed.load, spark), checkpoint) == expected(names)


def test_without_a_seeded_bug_the_story_is_told(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    names = ["dropDuplicates"]
    assert tell(feed, names, _loads(spark, feed), checkpoint) == expected(names)


@pytest.mark.parametrize(
    ("names", "dropped"),
    [
        (["dropDuplicates", "transformWithState"], 2),
        (["tumbling past the bound, windows"], 1),
    ],
    ids=["any", "windows"],
)
def test_a_watermark_one_millisecond_too_high_loses_the_event_at_the_bound(
    spark: SparkSession, feed: Feed, checkpoint: str, names: list[str], dropped: int
) -> None:
    told, right = (
        tell(feed, names, _loads(spark, feed, HighSource), checkpoint),
        expected(names),
    )
    for name in names:
        assert (told.early[name], told.late[name]) != (right.early[name], right.late[name])
    assert told.dropped == dropped
    assert told.watermarks == [0, *(watermark + 1 for watermark in right.watermarks[1:])]


@pytest.mark.parametrize(
    "names",
    [["outer join"], ["tumbling, windows", "sliding, windows"]],
    ids=["any", "windows"],
)
def test_a_watermark_one_batch_behind_holds_results_back(
    spark: SparkSession, feed: Feed, checkpoint: str, names: list[str]
) -> None:
    told = tell(feed, names, _loads(spark, feed, BehindSource), checkpoint)
    right = expected(names)
    for name in names:
        assert told.early[name] == []
        assert right.early[name] != []
    assert told.watermarks == right.watermarks[:-1]


def test_ticks_that_are_filtered_below_the_barrier_stop_time(
    spark: SparkSession, feed: Feed, checkpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(spark.range(1)), "observe", lambda df, *_: df)
    names = ["a filter that nothing passes", "filters everywhere"]
    told = tell(feed, names, _loads(spark, feed), checkpoint)
    assert 30_000 not in told.watermarks
    assert 30_000 in expected(names).watermarks


def test_a_replay_that_reads_the_live_tail_counts_events_twice(
    spark: SparkSession, feed: Feed, checkpoint: str, tmp_path: Path
) -> None:
    names, load = ["tumbling, windows"], _loads(spark, feed, LiveSource, admission="marks")
    assert tell(feed, names, load, checkpoint) == expected(names)
    repeated = crashed(checkpoint, tmp_path, 0)
    with Followed(united(names, load), repeated) as followed:
        followed.until_read(30_000)
    windows = [tuple(window) for _, window in followed.rows]
    assert windows == [(0, 1), (5_000, 1), (10_000, 2)]
