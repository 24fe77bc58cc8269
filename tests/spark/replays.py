"""One query over the same readings: by Tidegauge, and by Spark's own watermark from files."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from examples.telemetry import Reading
from spark_source import read_stream
from tests.honest_feed import HonestFeed
from tests.spark.feed import Followed

Rows = list[tuple[Any, ...]]

# 9999-12-31: about the latest time that Spark can hold. A row of it closes every window.
_END_MS = 253_402_214_400_000
_ROW = "key string, at long, value long"
_ARROW = pa.schema([("key", pa.string()), ("at", pa.int64()), ("value", pa.int64())])


def read_readings(spark: SparkSession, feed: HonestFeed, **options: Any) -> DataFrame:
    """Read a stream of readings; the value is a number again."""
    loaded = read_stream(spark, url=feed.url, stream=feed.stream, **options)
    number = F.col("value").cast("string").cast("long").alias("value")
    return loaded.select("key", "event_time", "segment", "offset", number)


def count_by_hour(readings: DataFrame) -> DataFrame:
    """Count and add up readings by key and hour."""
    counted = readings.groupBy("key", F.window("event_time", "1 hour")).agg(
        F.count(F.lit(1)).alias("count"), F.sum("value").alias("sum")
    )
    return counted.select("key", F.unix_millis("window.start").alias("start"), "count", "sum")


def guess_watermark(spark: SparkSession, folder: Path, delay: str) -> DataFrame:
    """Read a folder, a file a batch, with Spark's own watermark: the newest row less a delay."""
    rows = spark.readStream.schema(_ROW).option("maxFilesPerTrigger", 1).parquet(str(folder))
    timed = rows.select("key", F.timestamp_millis("at").alias("event_time"), "value")
    observed = timed.withWatermark("event_time", delay).observe(
        "all", F.count(F.lit(1)).alias("rows")
    )
    # Without an observation the filter would be moved in front of the watermark, and the last
    # row, which tells the end, would not be seen by it.
    return observed.where("key is not null")


def divide_unevenly(
    readings: Sequence[Reading], speeds: Sequence[int], batches: int
) -> list[list[Reading]]:
    """Divide readings over partitions by their key, and read these at different speeds.

    The fastest is read within the batches; the others go on until all is read.
    """
    of_keys = {key: at for at, key in enumerate(sorted({one.key for one in readings}))}
    partitions = [list[Reading]() for _ in speeds]
    for one in readings:
        partitions[of_keys[one.key] % len(speeds)].append(one)
    sizes = [
        -(-len(rows) * speed // (max(speeds) * batches))
        for rows, speed in zip(partitions, speeds, strict=True)
    ]
    needed = max(-(-len(rows) // size) for rows, size in zip(partitions, sizes, strict=True))
    return [
        [
            one
            for rows, size in zip(partitions, sizes, strict=True)
            for one in rows[number * size : (number + 1) * size]
        ]
        for number in range(needed)
    ]


def write_batches(batches: Sequence[Sequence[Reading]], folder: Path) -> None:
    """Write a file for each batch, and the end into one more."""
    folder.mkdir()
    end = Reading("", "", _END_MS, _END_MS, 0)
    for number, batch in enumerate([*batches, [end]]):
        columns = {
            "key": [one.key or None for one in batch],
            "at": [one.event_time for one in batch],
            "value": [one.value for one in batch],
        }
        path = folder / f"{number:05}.parquet"
        parquet.write_table(pa.table(columns, schema=_ARROW), path)
        os.utime(path, (number, number))  # Spark reads the oldest file first


class Replay:
    """A query that is run to the end of its stream, with restarts on the way."""

    def __init__(self, df: DataFrame, checkpoint: Path) -> None:
        self._df = df
        self._checkpoint = checkpoint
        self._batches: dict[int, Rows] = {}
        self.dropped = 0

    @property
    def rows(self) -> Rows:
        """All that came out, in order of value."""
        return sorted(row for rows in self._batches.values() for row in rows)

    @contextmanager
    def running(self) -> Iterator[Followed]:
        """Start, or start again: then the last batch is repeated, as after a crash."""
        if self._batches:
            _forget_last_commit(self._checkpoint)
        with Followed(self._df, str(self._checkpoint)) as followed:
            yield followed
            self.dropped += followed.dropped
        self._batches |= followed.batches

    def finish(self, batches_a_run: float = inf) -> None:
        """Run until everything is read and told, starting again after so many batches."""
        ended = False
        while not ended:
            with self.running() as followed:
                _wait_for_batches(followed, batches_a_run)
                ended = followed.has_ended
                if ended:
                    followed.query.processAllAvailable()


def _wait_for_batches(followed: Followed, count: float) -> None:
    followed.until(
        lambda: followed.has_ended or len(followed.batches) >= count,
        "the end of the stream",
    )


def _forget_last_commit(checkpoint: Path) -> None:
    commits = [
        int(one.name) for one in (checkpoint / "commits").iterdir() if one.name.isdigit()
    ]
    last = str(max(commits))
    for name in (last, f".{last}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
