"""Queries that drain what is there, again and again, over streams that are fed unevenly."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.server import ServerProcess
from tests.spark.feed import DAY, Feed
from tests.spark.targets import logged_batches

_FED = (0, 1), (1, 2), (2, 0), (0, 1)
"""Which two of the three streams each run finds something new in."""
_ROWS = 1, 3, 8
"""How many rows a run finds in each; a batch takes at most 5 of one."""


@pytest.fixture
def feeds(shared_server: ServerProcess) -> Iterator[Sequence[Feed]]:
    with ExitStack() as stack:
        made = [
            stack.enter_context(Feed(shared_server.url, f"spark/uneven-{number}"))
            for number in range(3)
        ]
        for feed in made:
            feed.create()
        yield made


def _counted(df: DataFrame) -> DataFrame:
    windows = df.groupBy(F.window("event_time", "10 seconds")).count()
    return windows.select((F.unix_millis("window.start") - DAY).alias("start"), "count")


def _drained(df: DataFrame, checkpoint: str) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    query = (
        df.writeStream.trigger(availableNow=True)
        .option("checkpointLocation", checkpoint)
        .foreachBatch(lambda batch, _: rows.extend(map(tuple, batch.collect())))
        .start()
    )
    assert query.awaitTermination(120)
    return rows


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
        found += _drained(_counted(loads[0].union(loads[1]).union(loads[2])), checkpoint)
        least = min(noted.values())
        assert logged_batches(Path(checkpoint))[-1].watermark == DAY + least
        assert found == [(start, rows) for start, rows in expected if start < least]
