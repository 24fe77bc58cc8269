"""Windows with allowed lateness against Spark's own windows, 100 000 rows a batch."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source import windowed
from spark_source.processing import count, mean, session, tumbling

_BATCHES = 8
_WARM_UP = 2
_ROUNDS = 3
_ROWS = 100_000
_KEYS = 1_000
_HOUR_MS = 3_600_000
_START_MS = 1_700_000_000_000 // _HOUR_MS * _HOUR_MS
_MARKER = "spark.watermarkDelayMs"
_TIMESTAMP = pa.timestamp("us", tz="UTC")

Query = Callable[[DataFrame], DataFrame]


def measure() -> Iterator[tuple[str, str, str]]:
    """Run the queries in turn over the same files, a file a batch."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder:
        _write_batches(Path(folder) / "rows")
        times: dict[str, list[float]] = {name: [] for name in _QUERIES}
        for number in range(_ROUNDS):
            for name, query in _QUERIES.items():
                checkpoint = f"{folder}/{name} {number}"
                times[name] += _seconds(spark, query, f"{folder}/rows", checkpoint)
    spark.stop()
    seconds = {name: median(of_batches) for name, of_batches in times.items()}
    native = seconds["Spark's own windows, append"]
    for name, one in seconds.items():
        ratio = "the baseline" if one == native else f"{one / native:.2f} of Spark's own"
        yield name, f"{one * 1_000:.0f} ms a batch", ratio + _GOALS.get(name, "")
    ratio_of_buckets = seconds["tumbling, 64 buckets"] / seconds["tumbling, 4 buckets"]
    yield "64 buckets against 4", f"{ratio_of_buckets:.2f}", "≤ 1.3"


def _native(rows: DataFrame) -> DataFrame:
    window = F.window("event_time", "1 hour")
    return rows.groupBy("key", window).agg(F.count(F.lit(1)).alias("n"), F.avg("value"))


def _tumbling(rows: DataFrame, *, buckets: int | None = None, merged: bool = True) -> DataFrame:
    return windowed(
        rows if merged else rows.drop("late_below"),
        tumbling("1 hour"),
        key="key",
        aggregates={"n": count(), "mean": mean("value")},
        allowed_lateness="30 minutes",
        accumulation="accumulating_and_retracting",
        buckets=buckets,
    ).output()


def _sessions(rows: DataFrame) -> DataFrame:
    return windowed(
        rows,
        session("10 seconds"),
        key="key",
        aggregates={"n": count(), "mean": mean("value")},
        allowed_lateness="30 minutes",
    ).output()


_QUERIES: dict[str, Query] = {
    "Spark's own windows, append": _native,
    "tumbling, lateness of half a window, retractions": _tumbling,
    "tumbling, 4 buckets": lambda rows: _tumbling(rows, buckets=4),
    "tumbling, 64 buckets": lambda rows: _tumbling(rows, buckets=64),
    "tumbling, rows without `late_below`": lambda rows: _tumbling(rows, merged=False),
    "sessions": _sessions,
}
_GOALS = {"tumbling, lateness of half a window, retractions": " (≤ 2)"}


def _seconds(spark: SparkSession, query: Query, path: str, checkpoint: str) -> list[float]:
    """Return how long each batch with rows took, once the query is warm."""
    rows = (
        spark.readStream.schema(spark.read.parquet(path).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(path)
        .withWatermark("watermark", "0 milliseconds")
        .observe("rows", F.count(F.lit(1)).alias("rows"))
        .withColumn(
            "event_time", F.col("event_time").alias("event_time", metadata={_MARKER: 0})
        )
        .withColumn("watermark", F.col("watermark").alias("watermark", metadata={}))
    )
    running = (
        query(rows)
        .writeStream.outputMode("append")
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    batches = [one for one in running.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1_000 for one in batches[_WARM_UP:]]


def _write_batches(folder: Path) -> None:
    """Write an hour a file, in disorder over two; bounds follow an hour behind."""
    folder.mkdir()
    chance = np.random.default_rng(1)
    for number in range(_BATCHES):
        bound = _START_MS + number * _HOUR_MS
        at = bound + chance.integers(0, 2 * _HOUR_MS, _ROWS)
        path = folder / f"{number}.parquet"
        pq.write_table(
            pa.table(
                {
                    "key": pa.array(map(str, chance.integers(0, _KEYS, _ROWS))),
                    "event_time": _times(at),
                    "value": chance.random(_ROWS),
                    "segment": np.zeros(_ROWS, np.int64),
                    "offset": np.arange(_ROWS) + number * _ROWS,
                    "watermark": _times(np.full(_ROWS, bound + _HOUR_MS)),
                    "late_below": _times(np.full(_ROWS, bound)),
                }
            ),
            path,
        )
        # Spark reads files in the order of their times.
        os.utime(path, (number, number))


def _times(at_ms: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    return pa.array(at_ms * 1_000).cast(_TIMESTAMP)
