"""Spark's windows, a processor and windows of ours over one stream, as each is without Spark."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.server import ServerProcess
from tests.spark import operators
from tests.spark.feed import Feed, Followed

pytestmark = pytest.mark.every_spark


@pytest.fixture(scope="module")
def followed(
    spark: SparkSession,
    shared_server: ServerProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Followed]:
    """The query, which has read its stream to the end."""
    checkpoint = str(tmp_path_factory.mktemp("operators") / "checkpoint")
    with Feed(shared_server.url, "spark/operators") as feed:
        feed.create()
        operators.fill(feed)
        with Followed(operators.query(spark, feed), checkpoint) as followed:
            followed.until_end()
            yield followed


@pytest.mark.parametrize("operator", ["Spark", "process", "windowed"])
def test_outputs_are_those_of_the_operator_and_the_end_of_time_drains(
    followed: Followed, operator: str
) -> None:
    told, expected = operators.told(followed.rows), operators.expected()
    assert {name: rows for name, rows in told.items() if name[0] == operator} == {
        name: rows for name, rows in expected.items() if name[0] == operator
    }
    assert followed.dropped == 0


def test_the_progress_counts_late_rows_and_what_is_held(followed: Followed) -> None:
    visits, sessions = (
        [
            counts.asDict()
            for progress in followed.query.recentProgress
            for name, counts in progress["observedMetrics"].items()
            if name.startswith(f"tidegauge-{operator}-")
        ]
        for operator in ("process", "windowed")
    )
    held = [tuple(counts.values()) for counts in visits]
    assert list(visits[0]) == ["late", "keys", "buffered", "timers"]
    assert held[:4] == [(0, 1, 1, 0), (0, 1, 1, 1), (1, 2, 3, 0), (1, 3, 3, 1)]
    assert sum(counts["late"] or 0 for counts in visits) == 5
    assert sum(counts["late"] or 0 for counts in sessions) == 2
    assert sessions[-1]["windows"] == 0
