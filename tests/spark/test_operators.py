"""Every stateful operator of Spark, driven by the bound."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.spark.feed import Feed, Followed
from tests.spark.scenarios import STORIES, replay, tell


@pytest.mark.parametrize("name", STORIES)
def test_an_event_at_exactly_the_bound_counts_and_results_come_with_the_bound(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str
) -> None:
    story = STORIES[name]
    load = partial(feed.load, spark, operators=story.operators)
    feed.write(4_000, 9_999)
    feed.note(10_000)
    with Followed(story.query(load), checkpoint) as followed:
        early, late = tell(feed, followed)
        assert early == sorted(story.early, key=str)
        assert late == sorted(story.early + story.late, key=str)
        less = 0 if story.operators == "windows" else 1
        assert followed.watermarks == [0, 10_000 - less, 20_000 - less, 30_000 - less]
        assert followed.bounds == [10_000, 20_000, 30_000]
        assert followed.dropped == 0


def test_a_replayed_batch_has_the_rows_that_were_planned_and_not_the_live_tail(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    assert replay(feed, partial(feed.load, spark), checkpoint) == [(0, 2_000), (1, 4_000)]
