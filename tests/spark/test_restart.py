"""A query that stops at any point goes on from its checkpoint with the same output."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.server import ServerProcess
from tests.spark.feed import Feed, Followed
from tests.spark.restarts import BATCHES, crashed, run, run_through
from tests.spark.scenarios import Load


@pytest.fixture(scope="module")
def whole_feed(shared_server: ServerProcess) -> Iterator[Feed]:
    with Feed(shared_server.url, "spark/whole") as one:
        one.create()
        yield one


@pytest.fixture(scope="module")
def load(spark: SparkSession, whole_feed: Feed) -> Load:
    return partial(whole_feed.load, spark, operators="windows", admission="marks")


@pytest.fixture(scope="module")
def whole(whole_feed: Feed, load: Load, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The checkpoint of a query that nothing disturbed."""
    checkpoint = str(tmp_path_factory.mktemp("whole") / "checkpoint")
    followed = run_through(whole_feed, load, checkpoint)
    assert followed.batches == BATCHES
    assert followed.watermarks == [0, 5_000, 10_000]
    assert followed.dropped == 0
    return checkpoint


@pytest.mark.every_spark
@pytest.mark.parametrize(
    ("batch", "watermarks"),
    [
        (0, [0, 5_000, 10_000]),
        (1, [5_000, 10_000]),
        (2, [5_000, 10_000]),
        (3, [10_000]),
    ],
)
def test_a_crash_between_offset_log_and_commit_log_repeats_the_batch_as_it_was(
    load: Load, whole: str, tmp_path: Path, batch: int, watermarks: list[int]
) -> None:
    with run(load, crashed(whole, tmp_path, batch, committed=False)) as followed:
        followed.until_read(10_000)
        assert min(followed.batches) == batch
        assert followed.batches[batch] == BATCHES[batch]
        assert _rows_before(batch) + followed.rows == [(0, 2), (5_000, 3)]
        assert followed.watermarks == watermarks
        assert followed.dropped == 0


@pytest.mark.parametrize(
    ("batch", "watermarks"),
    [
        (0, [5_000, 10_000]),
        (1, [5_000, 10_000]),
        (2, [10_000]),
        (3, [10_000]),
    ],
)
def test_a_stop_after_the_commit_log_goes_on_with_the_next_batch(
    load: Load, whole: str, tmp_path: Path, batch: int, watermarks: list[int]
) -> None:
    with run(load, crashed(whole, tmp_path, batch, committed=True)) as followed:
        followed.until_read(10_000)
        assert min(followed.batches) == batch + 1
        assert _rows_before(batch + 1) + followed.rows == [(0, 2), (5_000, 3)]
        assert followed.watermarks == watermarks
        assert followed.dropped == 0


def _rows_before(batch: int) -> list[tuple[int, int]]:
    return [row for number in range(batch) for row in BATCHES[number]]


def test_an_outer_join_with_an_idle_side_goes_on_after_a_restart(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, key="left")
    feed.write(2_000, key="other")
    feed.note(3_000)
    with Followed(_joined_with_nobody(spark, feed), checkpoint) as followed:
        followed.until_read(3_000)
        assert followed.rows == []
        assert followed.watermarks == [0, 2_999]
    feed.note(60_000)
    with Followed(_joined_with_nobody(spark, feed), checkpoint) as followed:
        followed.until_read(60_000)
        assert followed.rows == [(0, None)]
        assert followed.watermarks == [2_999, 59_999]
        assert followed.dropped == 0


def _joined_with_nobody(spark: SparkSession, feed: Feed) -> DataFrame:
    left = (
        feed.load(spark).where("key = 'left'").selectExpr("event_time AS at", "value", "offset")
    )
    right = (
        feed.load(spark).where("key = 'never'").selectExpr("event_time AS bt", "value", "key")
    )
    near = F.expr("a.value = b.value AND bt >= at AND bt <= at + INTERVAL 10 SECONDS")
    return left.alias("a").join(right.alias("b"), near, "left").select("offset", "key")
