"""Every stateful operator of Spark, driven by the bound."""

from collections.abc import Iterator
from functools import partial

import pytest
from pyspark.sql import SparkSession

from tests.server import ServerProcess
from tests.spark.feed import Feed
from tests.spark.scenarios import STORIES, Told, tell_at_once


@pytest.fixture(scope="module")
def told(
    spark: SparkSession, shared_server: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Told]]:
    """What all operators say of one feed."""
    with Feed(shared_server.url, "spark/operators") as feed:
        feed.create()
        queries = {
            name: story.query(partial(feed.load, spark, operators=story.operators))
            for name, story in STORIES.items()
        }
        yield tell_at_once(feed, queries, str(tmp_path_factory.mktemp("operators")))


@pytest.mark.parametrize("name", STORIES)
def test_an_event_at_exactly_the_bound_counts_and_results_come_with_the_bound(
    told: dict[str, Told], name: str
) -> None:
    assert told[name] == STORIES[name].told
