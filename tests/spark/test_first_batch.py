"""Spark logs the end of a query's first batch, and asks anew for its start when it replays it."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from spark_source.compatibility import ReadLimit
from spark_source.data_source import StreamReader
from spark_source.options.load import read_options
from spark_source.source.partitions import SegmentPartition
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.restarts import crashed


def _reader(feed: Feed, **options: str) -> StreamReader:
    return StreamReader(read_options(feed.options | options))


def _ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[range]:
    partitions = reader.partitions(start, end)
    return [
        range(one.start, one.end) for one in partitions if isinstance(one, SegmentPartition)
    ]


def test_rows_between_the_first_plan_and_a_crash_are_read_by_the_replay(feed: Feed) -> None:
    feed.write(*range(10))
    planner = _reader(feed, startingOffsets="latest")
    start = planner.initialOffset()
    feed.write(*range(10))
    end = planner.latestOffset(start, ReadLimit())
    planner.stop()
    feed.write(*range(10))
    replaying = _reader(feed, startingOffsets="latest")
    assert _ranges(replaying, replaying.initialOffset(), end) == [range(10, 20)]
    following = replaying.latestOffset(end, ReadLimit())
    assert _ranges(replaying, end, following) == [range(20, 30)]
    replaying.stop()


def test_a_mark_that_comes_after_the_first_plan_makes_no_row_late_in_its_replay(
    spark: SparkSession, feed: Feed, checkpoint: str, tmp_path: Path
) -> None:
    feed.write(1_000)
    rows = feed.load(spark).select("offset", "late")
    with Followed(rows, checkpoint) as followed:
        followed.until_read(None)
        assert followed.rows == [(0, False)]
    feed.note(5_000, position={"0": 0})
    with Followed(rows, crashed(checkpoint, tmp_path, 0, committed=False)) as followed:
        followed.until_read(5_000)
        assert followed.rows == [(0, False)]


def test_batches_by_event_time_begin_before_the_first_mark_as_they_did_live(
    feed: Feed,
) -> None:
    feed.note(1_000)
    assert _reader(feed).initialOffset()["bound"] == DAY + 1_000
    paced = _reader(feed, admission="marks", maxEventTimePerTrigger="1 second")
    start = paced.initialOffset()
    assert (start["bound"], start["revision"]) == (None, 0)
    end = paced.latestOffset(start, ReadLimit())
    assert (end["bound"], end["revision"]) == (DAY + 1_000, 1)
    paced.stop()
