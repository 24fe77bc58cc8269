"""A query that stops at any point goes on from its checkpoint with the same output."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.effort import Effort
from tests.server import ServerProcess
from tests.spark import operators
from tests.spark.feed import DAY, Feed, Followed
from tests.spark.restarts import crashed
from tests.spark.targets import logged_batches


@pytest.fixture(scope="module")
def filled(shared_server: ServerProcess) -> Iterator[Feed]:
    with Feed(shared_server.url, "spark/restarted") as feed:
        feed.create()
        operators.fill(feed)
        yield feed


@pytest.fixture(scope="module")
def whole(
    spark: SparkSession, filled: Feed, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Followed]:
    """A query that nothing disturbed, and its checkpoint."""
    checkpoint = str(tmp_path_factory.mktemp("whole") / "checkpoint")
    with Followed(operators.query(spark, filled), checkpoint) as followed:
        followed.until_end()
    assert operators.told(followed.rows) == operators.expected()
    return checkpoint, followed


@pytest.mark.every_spark
def test_a_crash_between_offset_log_and_commit_log_repeats_the_batch_as_it_was(
    spark: SparkSession,
    filled: Feed,
    whole: tuple[str, Followed],
    tmp_path: Path,
    effort: Effort,
) -> None:
    """Of the windows of Spark, of a processor and of ours, which corrects some in the sixth batch."""
    checkpoint, before = whole
    points = effort.times("crashes", short=3, long=len(before.batches))
    for batch in [0, 5, 3, *(number for number in before.batches if number not in {0, 5, 3})][
        :points
    ]:
        again = crashed(checkpoint, tmp_path, batch)
        with Followed(operators.query(spark, filled), again) as followed:
            followed.until_end()
        assert min(followed.batches) == batch
        assert followed.batches[batch] == before.batches[batch]
        assert set(followed.watermarks) <= set(before.watermarks)
        assert followed.watermarks[-1] == before.watermarks[-1]
        kept = [row for number in range(batch) for row in before.batches[number]]
        assert operators.told(kept + followed.rows) == operators.expected()
        assert followed.dropped == 0


_FED = (0, 1), (1, 2), (2, 0), (0, 1)
"""Which two of the three streams each run finds something new in."""
_ROWS = 1, 3, 8
"""How many rows a run finds in each; a batch takes at most 5 of one."""


@pytest.fixture
def feeds(shared_server: ServerProcess) -> Iterator[Sequence[Feed]]:
    with ExitStack() as stack:
        feeds = [Feed(shared_server.url, f"spark/uneven-{number}") for number in range(3)]
        for feed in feeds:
            stack.enter_context(feed).create()
        yield feeds


def test_a_run_reaches_the_least_bound_of_three_streams_though_it_finds_nothing_new_in_one(
    spark: SparkSession, feeds: Sequence[Feed], checkpoint: str
) -> None:
    """Spark keeps the least watermark alone from run to run, and forgets those of the streams."""
    noted = dict.fromkeys(range(3), -DAY)
    expected: list[tuple[int, int]] = []
    found: list[tuple[int, int]] = []
    for run, fed in enumerate(_FED):
        for number in fed:
            times = (10_000 * run + at for at in range(_ROWS[number]))
            feeds[number].write(*times)
            noted[number] = 10_000 * (run + 1)
            feeds[number].note(noted[number])
        expected.append((10_000 * run, sum(_ROWS[number] for number in fed)))
        loads = [feed.load(spark, operators="windows", maxRowsPerTrigger=5) for feed in feeds]
        united = loads[0].union(loads[1]).union(loads[2])
        with Followed(_counted(united), checkpoint, drains=True) as drained:
            assert drained.query.awaitTermination(120)
        found += drained.rows
        least = min(noted.values())
        assert logged_batches(Path(checkpoint))[-1].watermark == DAY + least
        assert found == [(start, rows) for start, rows in expected if start < least]


def _counted(df: DataFrame) -> DataFrame:
    windows = df.groupBy(F.window("event_time", "10 seconds")).count()
    return windows.select((F.unix_millis("window.start") - DAY).alias("start"), "count")
