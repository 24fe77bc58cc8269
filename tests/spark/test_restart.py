"""A query that stops at any point goes on from its checkpoint with the same output."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark.feed import DAY, Feed, Followed

_TIMES = [1_000, 4_000, 6_000, 9_000, 11_000, 14_000]


def _windows(df: DataFrame) -> DataFrame:
    counted = df.groupBy(F.window("event_time", "5 seconds")).count()
    return counted.select(F.unix_millis("window.start"), "count")


def _forget_last_commit(checkpoint: str) -> None:
    """Leave the checkpoint as a crash between the offset log and the commit log does."""
    commits = sorted(
        (path for path in Path(checkpoint, "commits").iterdir() if path.name.isdigit()),
        key=lambda path: int(path.name),
    )
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("commit_is_lost", [False, True])
def test_every_restart_gives_the_same_windows_once(
    spark: SparkSession, feed: Feed, checkpoint: str, *, commit_is_lost: bool
) -> None:
    emitted: dict[int, int] = {}
    for at in range(0, len(_TIMES), 2):
        feed.write(*_TIMES[at : at + 2])
        feed.note(_TIMES[at + 1] + 1_000)
        with Followed(_windows(feed.load(spark, operators="windows")), checkpoint) as followed:
            followed.until_bound(_TIMES[at + 1] + 1_000)
            assert followed.dropped == 0
        emitted |= dict(followed.rows)
        if commit_is_lost:
            _forget_last_commit(checkpoint)
    assert emitted == {DAY: 2, DAY + 5_000: 2, DAY + 10_000: 2}


def test_an_outer_join_with_an_idle_side_goes_on_after_a_restart(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, key="left")
    feed.write(2_000, key="other")
    feed.note(3_000)

    def joined() -> DataFrame:
        left = feed.load(spark).where("key = 'left'")
        right = feed.load(spark).where("key = 'never'")
        near = F.expr("a.value = b.value AND bt >= at AND bt <= at + INTERVAL 10 SECONDS")
        return (
            left.selectExpr("event_time AS at", "value", "offset")
            .alias("a")
            .join(right.selectExpr("event_time AS bt", "value", "key").alias("b"), near, "left")
            .select("offset", "key")
        )

    with Followed(joined(), checkpoint) as followed:
        followed.until_bound(2_999)
        assert followed.rows == []
    feed.note(60_000)
    with Followed(joined(), checkpoint) as followed:
        followed.until(lambda: followed.rows == [(0, None)], "the row without a partner")
        assert followed.dropped == 0
