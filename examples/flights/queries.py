"""The Spark queries: flights by airport and hour, with Tidegauge's watermark or Spark's own."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.carriers import Address
from examples.flights.waiting import FlightsError, wait_until
from examples.flights.windows import ClosedWindows
from spark_source import quick_start, read_stream
from spark_source.compatibility import read_offset

LIVE_BATCH = "0.7 seconds"
"""Longer than the carriers take to report what landed and to note the time, and than a batch."""

_FLIGHT = "origin string, delay double"
_ROW = "origin string, delay double, departed long"
_WINDOW = ["origin", "start", "departures", "mean_delay"]
_SETTINGS: dict[str, Any] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.numRecentProgressUpdates": "10000",
    "spark.sql.streaming.minBatchesToRetain": "2",
}
_ON_THIS_MACHINE: dict[str, Any] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Files of checkpoints are renamed by Java; the default starts several processes for each.
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming"
    ".checkpointing.FileSystemBasedCheckpointFileManager",
}


@contextmanager
def running_spark(
    master: str = "local[2]",
    *,
    log: Path | None = None,
    jars: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
) -> Iterator[SparkSession]:
    """Start a small session with this interpreter, and stop it in the end.

    Its JVM writes to the log, or to standard error.
    """
    quick_start()
    level = "OFF" if master.startswith("local") else "WARN"
    given = {**_SETTINGS, "spark.log.level": level, **(settings or {})}
    given |= _ON_THIS_MACHINE if master.startswith("local") else {}
    given |= {"spark.jars": ",".join(map(str, jars))} if jars else {}
    with nullcontext() if log is None else _stderr_into(log):
        builder = SparkSession.builder.master(master).appName("flights")
        spark = builder.config(map=given).getOrCreate()
        spark.sparkContext.setLogLevel(level)
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let processes that are started meanwhile write their standard error to a file."""
    ours = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(ours, 2)
        os.close(ours)


class WindowQuery:
    """Departures and mean delay by origin and hour, from one streaming source.

    The flights have ``event_time``, ``origin`` and ``delay``. The folder gets the checkpoint, and a
    file of windows for each batch that closes some: a batch that is repeated writes its own again.
    """

    def __init__(
        self, name: str, flights: DataFrame, folder: Path, *, every: str = "0 seconds"
    ) -> None:
        self.name = name
        self._folder = folder / "windows"
        self._folder.mkdir(parents=True, exist_ok=True)
        windows = (
            flights.groupBy("origin", F.window("event_time", "1 hour"))
            .agg(F.count(F.lit(1)).alias("departures"), F.avg("delay").alias("mean_delay"))
            .withColumn("start", F.unix_millis("window.start"))
            .select(*_WINDOW)
        )
        self.query = (
            windows.writeStream.outputMode("append")
            .queryName(name)
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(processingTime=every)
            .foreachBatch(self._store)
            .start()
        )
        # On a busy machine Spark gives up Python processes that start together with others.
        wait_until(lambda: self.query.lastProgress, name, go_on=self.check, patience_s=600)

    def _store(self, windows: DataFrame, batch: int) -> None:
        closed = windows.toPandas()
        if len(closed):
            closed.to_csv(self._folder / f"{batch:08}.csv", index=False)

    def check(self) -> None:
        """Raise `FlightsError` if the query has failed."""
        error = self.query.exception()
        if error is not None:
            raise FlightsError(str(error))

    def has_ended(self) -> bool:
        """Return whether the end of event time is in effect, which closes all windows."""
        return watermark_of(self.query) >= "9999"

    def finish(self) -> ClosedWindows:
        """Wait until everything is read, stop, and return the windows with the batch of each."""
        self.query.processAllAvailable()
        progress: Any = self.query.lastProgress
        self.query.stop()
        files = sorted(self._folder.glob("*.csv"))
        closed = [pd.read_csv(file).assign(batch=int(file.stem)) for file in files]
        windows = pd.concat(closed or [pd.DataFrame(columns=[*_WINDOW, "batch"])])
        (state,) = progress["stateOperators"]
        return ClosedWindows(
            self.name, windows.reset_index(drop=True), never_closed=state["numRowsTotal"]
        )


def read_flights_stream(
    spark: SparkSession,
    address: Address,
    **options: Any,  # noqa: ANN401 (of the source)
) -> DataFrame:
    """Read the flights of a stream with the watermark that their carriers noted.

    They are in the stream itself, unless options of the source say where.
    """
    token: dict[str, Any] = {} if address.token is None else {"token": address.token}
    place: dict[str, Any] = {"url": address.url, "stream": address.stream, **token}
    return flights_of(read_stream(spark, operators="windows", **place, **options))


def flights_of(rows: DataFrame) -> DataFrame:
    """Read ``origin`` and ``delay`` from the ``value`` of rows, beside their ``event_time``."""
    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    return rows.select("event_time", flight.alias("flight")).select("event_time", "flight.*")


def baseline_query(
    spark: SparkSession, arrivals: Path, delay_h: int, folder: Path
) -> WindowQuery:
    """Count the flights of a folder, a file a batch, with Spark's own watermark.

    A row without an origin is the end of time, for the watermark alone.
    """
    rows = spark.readStream.schema(_ROW).option("maxFilesPerTrigger", 1).parquet(str(arrivals))
    flights = rows.withColumn("event_time", F.timestamp_millis("departed"))
    guessed = flights.withWatermark("event_time", f"{delay_h} hours")
    # Without an observation Spark would move the filter in front of the watermark.
    observed = guessed.observe("rows", F.count(F.lit(1)).alias("rows"))
    return WindowQuery(f"delay {delay_h} h", observed.where("origin is not null"), folder)


def batches_done(query: StreamingQuery) -> int:
    """Return the number of finished batches, and count the next one while it waits for rows."""
    progress = query.lastProgress
    return 0 if progress is None else progress["batchId"] + 1


def watermark_of(query: StreamingQuery) -> str:
    """Return the watermark that is in effect; empty if there is none yet."""
    progress = query.lastProgress
    return "" if progress is None else str(progress["eventTime"].get("watermark", ""))


def events_read(query: StreamingQuery) -> int:
    """Return how many events of its stream are in finished batches of a query."""
    progress = query.lastProgress
    return 0 if progress is None else sum(_position(progress).values())


def _position(progress: Any) -> dict[str, int]:  # noqa: ANN401 (JSON)
    end = read_offset(progress["sources"][0]["endOffset"])
    position: dict[str, int] = end["position"]
    return position
