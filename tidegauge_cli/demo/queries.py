"""The Spark queries: Tidegauge's, and Spark's own watermark over the same arrival order."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import read_stream
from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.waiting import DemoFailedError, interrupted_later
from tidegauge_cli.demo.windows import Emission, running_clock

ROWS_PER_BATCH = 500
_FLIGHT = "origin string, delay double, landed long"
_ROW = "carrier string, origin string, delay double, departed long, landed long"


LOCAL_SPARK = "local[2]"
_LOST = (ConnectionRefusedError, ConnectionResetError, Py4JError)
_ON_THIS_MACHINE: dict[str, Any] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Files of checkpoints are renamed by Java; the default starts several processes for each.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}


def start_spark(master: str = LOCAL_SPARK) -> SparkSession:
    """Start a small session with this interpreter, a quiet one if it is local.

    Parameters
    ----------
    master
        Where Spark runs.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    is_local = master.startswith("local")
    log_level = "OFF" if is_local else "WARN"
    session = (
        SparkSession.builder.master(master)
        .appName("tidegauge-demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", log_level)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.sql.streaming.minBatchesToRetain", "2")
        .config(map=_ON_THIS_MACHINE if is_local else {})
        .getOrCreate()
    )
    session.sparkContext.setLogLevel(log_level)
    return session


@contextmanager
def running_spark(master: str = LOCAL_SPARK) -> Iterator[SparkSession]:
    """Start a session, and stop it in the end.

    Parameters
    ----------
    master
        Where Spark runs.

    Raises
    ------
    DemoFailedError
        If its JVM is lost meanwhile.
    """
    with ExitStack() as stack:
        with interrupted_later():
            spark = start_spark(master)
            stack.callback(_stop, spark)
        try:
            yield spark
        except _LOST as error:
            _raise_what_spark_says(error)
            msg = f"Spark ended before the demo did: {error}"
            raise DemoFailedError(msg) from error


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except _LOST as error:  # nothing is left to be stopped
        _raise_what_spark_says(error)


def _raise_what_spark_says(error: Exception) -> None:
    if isinstance(error, Py4JJavaError):
        raise error


def start_windows(
    name: str, flights: DataFrame, checkpoint: Path, take: Callable[[DataFrame, int], None]
) -> StreamingQuery:
    """Start to compute departures and mean delay per origin and hour.

    Parameters
    ----------
    name
        Of the query.
    flights
        Columns ``event_time``, ``origin``, ``delay``.
    checkpoint
        Folder of its checkpoint.
    take
        Gets the finished windows of each batch, and its number.
    """
    windows = (
        flights.groupBy("origin", F.window("event_time", "1 hour"))
        .agg(F.count(F.lit(1)).alias("departures"), F.avg("delay").alias("mean_delay"))
        .select(
            "origin",
            (F.unix_millis("window.start")).alias("start"),
            "departures",
            "mean_delay",
        )
    )
    return (
        windows.writeStream.outputMode("append")
        .queryName(name)
        .option("checkpointLocation", str(checkpoint))
        .foreachBatch(take)
        .start()
    )


def dropped_rows(query: StreamingQuery) -> int:
    """Count the rows that Spark dropped as late, as far back as it remembers."""
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def events_read(query: StreamingQuery) -> int:
    """Count the events of its stream that are in finished batches of a query."""
    progress = query.lastProgress
    if progress is None:
        return 0
    position = json.loads(progress["sources"][0]["endOffset"])["position"]
    return sum(position.values())


class WindowQuery:
    """Departures and mean delay per origin and hour, from one streaming source, in memory.

    Parameters
    ----------
    name
        Of the query.
    flights
        Columns ``event_time``, ``origin``, ``delay``, and the observation ``arrivals``.
    checkpoint
        Folder of its checkpoint.
    """

    def __init__(self, name: str, flights: DataFrame, checkpoint: Path) -> None:
        self.name = name
        self.emissions: list[Emission] = []
        self._lock = threading.Lock()
        self.query = start_windows(name, flights, checkpoint, self._take)

    def clock(self, start_ms: int) -> dict[int, int]:
        """Find the arrival of the newest row that each batch had read."""
        newest: dict[int, int | None] = {}
        for progress in self.query.recentProgress:
            observed: Any = progress["observedMetrics"].get("arrivals")
            newest[progress["batchId"]] = None if observed is None else observed["newest"]
        for emission in self.emissions:
            newest.setdefault(emission.batch, None)
        return running_clock(newest, start_ms)

    @property
    def windows_emitted(self) -> int:
        """How many windows are finished."""
        with self._lock:
            return sum(len(one.windows) for one in self.emissions)

    def _take(self, windows: DataFrame, batch: int) -> None:
        found = windows.toPandas()
        with self._lock:
            self.emissions.append(Emission(batch, found, time.time()))


def read_flights_stream(spark: SparkSession, address: StreamAddress) -> DataFrame:
    """Read the flights over HTTP, with the watermark that their carriers noted."""
    rows = read_stream(
        spark, operators="windows", url=address.url, stream=address.stream, **_token(address)
    )
    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    return rows.select("event_time", flight.alias("flight")).select("event_time", "flight.*")


def tidegauge_query(
    spark: SparkSession, address: StreamAddress, checkpoint: Path
) -> WindowQuery:
    """Count the flights with the watermark that their carriers noted."""
    return WindowQuery("tidegauge", _observed(read_flights_stream(spark, address)), checkpoint)


def baseline_query(
    spark: SparkSession, folder: Path, delay_h: int, checkpoint: Path
) -> WindowQuery:
    """Read the flights in order of arrival, with Spark's guess of the watermark."""
    rows = spark.readStream.schema(_ROW).option("maxFilesPerTrigger", 1).parquet(str(folder))
    flights = rows.withColumn("event_time", F.timestamp_millis("departed"))
    guessed = _observed(flights).withWatermark("event_time", f"{delay_h} hours")
    return WindowQuery(f"delay {delay_h} h", guessed, checkpoint)


def write_arrivals(flights: pd.DataFrame, folder: Path) -> None:
    """Write the flights in order of arrival, a file for each batch of the baselines."""
    folder.mkdir()
    for number, start in enumerate(range(0, len(flights), ROWS_PER_BATCH)):
        path = folder / f"{number:05}.parquet"
        flights.iloc[start : start + ROWS_PER_BATCH].to_parquet(path, index=False)
        os.utime(path, (number, number))


def _observed(flights: DataFrame) -> DataFrame:
    return flights.observe("arrivals", F.max("landed").alias("newest"))


def _token(address: StreamAddress) -> dict[str, Any]:
    return {} if address.token is None else {"token": address.token}
