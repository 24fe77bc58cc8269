"""Batches of files for queries that are compared: the same rows, a file a batch."""

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source.columns import OPERATORS

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
_MARKS = {"spark.watermarkDelayMs": 0, OPERATORS: "windows"}
_TIMESTAMP = pa.timestamp("us", tz="UTC")

Query = Callable[[DataFrame], DataFrame]


def spark_session(settings: Mapping[str, str] | None = None) -> SparkSession:
    """Start Spark on two cores, with the state store that operators need."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config(map=dict(settings or {}))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )


def seconds_of_batches(  # noqa: PLR0913 (what is run, and where)
    spark: SparkSession,
    query: Query,
    path: str,
    checkpoint: str,
    *,
    warm_up: int,
    mode: str = "append",
) -> list[float]:
    """Return how long each batch with rows took, once the query is warm."""
    running = _start(spark, query, path, checkpoint, mode)
    running.awaitTermination()
    batches = [one for one in running.recentProgress if one["numInputRows"]]
    return [one["durationMs"]["triggerExecution"] / 1_000 for one in batches[warm_up:]]


def processor_seconds(spark: SparkSession, query: Query, path: str, checkpoint: str) -> float:
    """Return how much processor time a query took, in the driver, the JVM and its Python."""
    return processor_seconds_of(
        lambda: _start(spark, query, path, checkpoint, "append").awaitTermination()
    )


def processor_seconds_of(work: Callable[[], object]) -> float:
    """Return how much processor time some work took, in this process and all that it started."""
    before = _processor_seconds_so_far()
    work()
    return _processor_seconds_so_far() - before


def _start(
    spark: SparkSession, query: Query, path: str, checkpoint: str, mode: str
) -> StreamingQuery:
    rows = (
        spark.readStream.schema(spark.read.parquet(path).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(path)
        .withWatermark("watermark", "0 milliseconds")
        .observe("rows", F.count(F.lit(1)).alias("rows"))
        .withColumn("event_time", F.col("event_time").alias("event_time", metadata=_MARKS))
        .withColumn("watermark", F.col("watermark").alias("watermark", metadata={}))
    )
    return (
        query(rows)
        .writeStream.outputMode(mode)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )


def _processor_seconds_so_far() -> float:
    itself = psutil.Process()
    while True:
        processes = (itself, *itself.children(recursive=True))
        with suppress(psutil.NoSuchProcess):  # it ended meanwhile: its parent has its time now
            return sum(sum(one.cpu_times()[:4]) for one in processes)


def write_batch(
    folder: Path,
    number: int,
    *,
    keys: npt.NDArray[np.int64],
    times_ms: npt.NDArray[np.int64],
) -> None:
    """Write a file of a batch; its rows come below the bound ``number`` hours on, and raise it."""
    folder.mkdir(exist_ok=True)
    count = len(keys)
    bound = START_MS + number * HOUR_MS
    path = folder / f"{number}.parquet"
    columns = {
        "key": pa.array(map(str, keys)),
        "event_time": _timestamps(times_ms),
        "value": np.random.default_rng(number).random(count),
        "segment": np.zeros(count, np.int64),
        "offset": np.arange(count) + number * count,
        "watermark": _timestamps(np.full(count, bound + HOUR_MS)),
        "late_below": _timestamps(np.full(count, bound)),
    }
    pq.write_table(pa.table(columns), path)
    # Spark reads files in the order of their times.
    os.utime(path, (number, number))


def _timestamps(times_ms: npt.NDArray[np.int64]) -> pa.Array:
    return pa.array(times_ms * 1_000).cast(_TIMESTAMP)
