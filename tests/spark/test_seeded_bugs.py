"""The stories of exactness are worth something: four seeded bugs make them fail."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from spark_source import TidegaugeDataSource, _watermark, watermarked
from spark_source._options import read_options
from spark_source._source import StreamReader
from tests.spark.feed import Feed, Followed
from tests.spark.scenarios import STORIES, Story, replay, tell


class _BehindReader(StreamReader):
    """Hands over the bound of the batch before."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        return super().partitions(start, end | {"bound": start["bound"]})


class _LiveReader(StreamReader):
    """Reads up to where the stream is now, whatever was planned."""

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> Sequence[InputPartition]:
        now = self.latestOffset(start, None)  # type: ignore[arg-type]
        return super().partitions(start, end | {"position": now["position"]})


class BehindSource(TidegaugeDataSource):
    @classmethod
    def name(cls) -> str:
        return "tidegauge_behind"

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802 (Spark's)
        return _BehindReader(read_options(dict(self.options)))


class LiveSource(TidegaugeDataSource):
    @classmethod
    def name(cls) -> str:
        return "tidegauge_live"

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: ARG002, N802 (Spark's)
        return _LiveReader(read_options(dict(self.options)))


def _load(
    spark: SparkSession,
    feed: Feed,
    *,
    source: type[TidegaugeDataSource] = TidegaugeDataSource,
    without_ticks: bool = False,
    **options: Any,
) -> DataFrame:
    spark.dataSource.register(source)
    loaded = spark.readStream.format(source.name()).options(**feed.options).load()
    return watermarked(loaded.where("NOT tick") if without_ticks else loaded, **options)


def _is_told_exactly(feed: Feed, story: Story, load: Any, checkpoint: str) -> bool:
    feed.write(4_000, 9_999)
    feed.note(10_000)
    with Followed(story.query(load), checkpoint) as followed:
        early, late = tell(feed, followed)
        return (early, late, followed.dropped) == (
            sorted(story.early, key=str),
            sorted(story.early + story.late, key=str),
            0,
        )


@pytest.mark.parametrize("name", ["dropDuplicates", "tumbling, any", "transformWithState"])
def test_a_watermark_one_millisecond_too_high_is_noticed(
    spark: SparkSession,
    feed: Feed,
    checkpoint: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(_watermark._DELAYS, "any", "0 milliseconds")
    load = partial(_load, spark, feed)
    assert not _is_told_exactly(feed, STORIES[name], load, checkpoint)


@pytest.mark.parametrize("name", ["tumbling, windows", "sliding, windows", "outer join"])
def test_a_watermark_one_batch_behind_is_noticed(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str
) -> None:
    story = STORIES[name]
    load = partial(_load, spark, feed, source=BehindSource, operators=story.operators)
    assert not _is_told_exactly(feed, story, load, checkpoint)


@pytest.mark.parametrize("name", ["tumbling, any", "transformWithState"])
def test_ticks_that_are_filtered_below_the_barrier_are_noticed(
    spark: SparkSession,
    feed: Feed,
    checkpoint: str,
    name: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_watermark, "_refuse_touched", lambda _df: None)
    load = partial(_load, spark, feed, without_ticks=True)
    assert not _is_told_exactly(feed, STORIES[name], load, checkpoint)


def test_a_replay_that_reads_the_live_tail_is_noticed(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    load = partial(_load, spark, feed, source=LiveSource)
    assert replay(feed, load, checkpoint) != [(0, 2_000), (1, 4_000)]
