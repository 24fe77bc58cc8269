"""A query with a reader group: the checkpoint leads, the group follows."""

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from reader_client import Reader, ReaderGroup, TimeWindow
from spark_source.errors import LoadError
from tests.patience import wait_until
from tests.spark.feed import DAY, Feed, Followed
from tidegauge.errors import ReaderFencedError


@pytest.fixture
def group(feed: Feed) -> str:
    return f"{feed.stream}-group"


def _offsets(feed: Feed, spark: SparkSession, group: str) -> DataFrame:
    return feed.load(spark, readerGroup=group).select("offset")


def _read_to(followed: Followed, count: int) -> None:
    """Wait until so many rows were read and their batch is committed to the group."""
    followed.until(lambda: len(followed.rows) == count, f"{count} rows")
    followed.query.processAllAvailable()


def test_commits_advance_the_group_and_its_window(
    spark: SparkSession, feed: Feed, checkpoint: str, group: str
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    with (
        Followed(_offsets(feed, spark, group), checkpoint) as followed,
        ReaderGroup(feed.url, group) as seen,
    ):
        _read_to(followed, 2)
        followed.until(lambda: seen.position(feed.stream) == {0: 2}, "the commit")
        assert seen.get_time_window(feed.stream) == TimeWindow(DAY + 3_000, None)
        assert list(seen.describe().state.readers) == ["spark"]


def test_a_query_without_a_checkpoint_starts_where_the_group_stands(
    spark: SparkSession, feed: Feed, tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    feed.write(1_000, 2_000, 3_000)
    feed.note(4_000)
    with ReaderGroup(feed.url, group) as made:
        made.create([feed.stream], start_cut={feed.stream: {0: 2}})
    folder = str(tmp_path_factory.mktemp("fresh"))
    with Followed(_offsets(feed, spark, group), folder) as followed:
        _read_to(followed, 1)
    assert followed.rows == [(2,)]


def _is_fenced(reader: Reader) -> bool:
    try:
        reader.read_next(wait_ms=0)
    except ReaderFencedError:  # which its heartbeat has told it
        return True
    return False


@pytest.mark.every_spark
def test_the_checkpoint_wins_over_the_group_back_too(
    spark: SparkSession, feed: Feed, checkpoint: str, group: str
) -> None:
    feed.write(1_000, 2_000)
    feed.note(3_000)
    with Followed(_offsets(feed, spark, group), checkpoint) as followed:
        _read_to(followed, 2)
    feed.write(4_000, 5_000)
    with Reader(feed.url, group, "stranger") as stranger, ReaderGroup(feed.url, group) as seen:
        seen.reader_offline("spark", epoch=seen.describe().state.readers["spark"].epoch)

        def is_read() -> bool:
            stranger.read_next(wait_ms=0)
            return seen.position(feed.stream) == {0: 4}

        wait_until(is_read)
        with Followed(_offsets(feed, spark, group), checkpoint) as followed:
            _read_to(followed, 2)
            wait_until(lambda: _is_fenced(stranger))
        assert sorted(followed.rows) == [(2,), (3,)]
        with pytest.raises(ReaderFencedError):
            stranger.close()


def test_of_two_queries_with_one_group_the_older_one_is_fenced_at_its_next_commit(
    spark: SparkSession, feed: Feed, tmp_path_factory: pytest.TempPathFactory, group: str
) -> None:
    first_folder, second_folder = (str(tmp_path_factory.mktemp("query")) for _ in range(2))
    feed.write(1_000)
    feed.note(2_000)
    with Followed(_offsets(feed, spark, group), first_folder) as older:
        _read_to(older, 1)
        with Followed(_offsets(feed, spark, group), second_folder) as newer:
            newer.until(lambda: newer.query.lastProgress is not None, "its start")
            with pytest.raises(StreamingQueryException, match="reader_fenced"):
                _feed_until_it_fails(feed, older)
            newer.until(lambda: (1,) in newer.rows, "what came since")
            assert newer.query.isActive


def _feed_until_it_fails(feed: Feed, older: Followed) -> None:
    feed.write(3_000)
    feed.note(4_000)
    older.until(lambda: (1,) in older.rows, "the row")
    feed.note(6_000)
    older.query.awaitTermination(60)


def test_a_group_of_another_stream_is_refused(
    spark: SparkSession, feed: Feed, group: str
) -> None:
    other = Feed(feed.url, feed.stream + "-other")
    with other:
        other.create()
    with ReaderGroup(feed.url, group) as made:
        made.create([other.stream])
    with pytest.raises(LoadError, match="option 'readerGroup'"):
        _offsets(feed, spark, group)
