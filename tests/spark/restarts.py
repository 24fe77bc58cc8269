"""A query that runs through, and its checkpoint as a crash at any point would have left it."""

import shutil
from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812

from tests.spark.feed import DAY, Feed, Followed
from tests.spark.scenarios import Load

BATCHES = {0: [], 1: [(0, 2)], 2: [], 3: [(5_000, 3)]}
"""The windows that each batch of the whole run hands over."""


def run_through(feed: Feed, load: Load, checkpoint: str) -> Followed:
    """Feed a query twice, the second time with an event at exactly the bound.

    The load has to admit marks only, or a batch may end between the events and their mark.
    """
    feed.write(1_000, 4_000)
    feed.note(5_000)
    with run(load, checkpoint) as followed:
        followed.until_read(5_000)
        feed.write(5_000, 6_000, 9_000)
        feed.note(10_000)
        followed.until_read(10_000)
    return followed


def run(load: Load, checkpoint: str) -> Followed:
    """Start to count in windows."""
    counted = load().groupBy(F.window("event_time", "5 seconds")).count()
    start = (F.unix_millis("window.start") - DAY).alias("start")
    return Followed(counted.select(start, "count"), checkpoint)


def crashed(whole: str, folder: Path, batch: int, *, committed: bool) -> str:
    """Copy a checkpoint as it was after a batch's entry in the offset log, or its commit."""
    checkpoint = Path(shutil.copytree(whole, folder / "crashed"))
    _cut_log(checkpoint / "offsets", batch)
    _cut_log(checkpoint / "commits", batch if committed else batch - 1)
    return str(checkpoint)


def _cut_log(log: Path, last: int) -> None:
    for entry in log.iterdir():
        number = entry.name.removeprefix(".").removesuffix(".crc")
        if number.isdigit() and int(number) > last:
            entry.unlink()
