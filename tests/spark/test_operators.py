"""Every stateful operator of Spark, driven by the bound."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.spark.feed import Feed, Followed
from tests.spark.scenarios import STORIES, tell


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
        handed_over = 0 if story.operators == "windows" else 1
        assert followed.watermarks == [0, 10_000 - handed_over, 30_000 - handed_over]
        assert followed.bounds == [10_000, 30_000]
        assert followed.dropped == 0
