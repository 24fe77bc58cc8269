"""Queries that are compared: a session, queries run to the end, and the same rows for all, a file a batch."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import quick_start
from spark_source.columns import OPERATORS

HOUR_MS = 3_600_000
START_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
_MARKS = {"spark.watermarkDelayMs": 0, OPERATORS: "windows"}
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_SETTINGS: dict[str, bool | float | int | str | None] = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
}
ROCKSDB = {
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state"
    ".RocksDBStateStoreProvider"
}
"""The state store that operators need."""

Query = Callable[[DataFrame], DataFrame]


@contextmanager
def spark_session(settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Start Spark on two cores, and stop it in the end."""
    quick_start()
    builder = SparkSession.builder.master("local[2]").config(
        map=_SETTINGS | dict(settings or {})
    )
    spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def drain(df: DataFrame, checkpoint: str, *, mode: str = "append") -> StreamingQuery:
    """Read all that is there into a sink that does nothing, and return the query, which has ended."""
    query = (
        df.writeStream.outputMode(mode)
        .format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def read_all(df: DataFrame) -> None:
    """Read as a batch into a sink that does nothing."""
    df.write.format("noop").mode("overwrite").save()


def batch_seconds(
    spark: SparkSession, query: Query, path: Path, *, warm_up: int, mode: str = "append"
) -> float:
    """Return how long a batch with rows took in the median, once the query is warm."""
    ended = drain(query(read_batches(spark, path)), mkdtemp(dir=path.parent), mode=mode)
    batches = [progress for progress in ended.recentProgress if progress["numInputRows"]]
    milliseconds = [batch["durationMs"]["triggerExecution"] for batch in batches[warm_up:]]
    return float(median(milliseconds)) / 1_000


def read_batches(spark: SparkSession, path: Path) -> DataFrame:
    """Read a folder, a file a batch, with the bound of each as its watermark."""
    return (
        spark.readStream.schema(spark.read.parquet(str(path)).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(path))
        .withWatermark("watermark", "0 milliseconds")
        .observe("rows", F.count(F.lit(1)).alias("rows"))
        .withColumn("event_time", F.col("event_time").alias("event_time", metadata=_MARKS))
        .withColumn("watermark", F.col("watermark").alias("watermark", metadata={}))
    )


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
        "event_time": timestamps(times_ms),
        "value": np.random.default_rng(number).random(count),
        "segment": np.zeros(count, np.int64),
        "offset": np.arange(count) + number * count,
        "watermark": timestamps(np.full(count, bound + HOUR_MS)),
        "late_below": timestamps(np.full(count, bound)),
    }
    pq.write_table(pa.table(columns), path)
    # Spark reads files in the order of their times.
    os.utime(path, (number, number))


def timestamps(times_ms: npt.NDArray[np.int64]) -> pa.Array:
    """Return times as Spark has them."""
    return pa.array(times_ms * 1_000).cast(_TIMESTAMP)
