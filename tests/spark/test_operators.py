"""Every stateful operator of Spark, driven by the bound; and that it frees its state."""

from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.spark.feed import Feed
from tests.spark.scenarios import STORIES, tell


@pytest.mark.parametrize("name", STORIES)
def test_an_event_at_exactly_the_bound_counts_results_come_with_the_bound_and_state_is_freed(
    spark: SparkSession, feed: Feed, checkpoint: str, name: str
) -> None:
    story = STORIES[name]
    load = partial(feed.load, spark, operators=story.operators)
    assert tell(feed, story, load, checkpoint) == story.told
