"""The Spark queries: Tidegauge's, and Spark's own watermark over the same arrival order."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.address import StreamAddress
from examples.flights.waiting import DemoFailedError
from examples.flights.windows import ClosedWindows
from spark_source import read_stream
from spark_source.compatibility import read_offset
from tidegauge.event_time import END_OF_TIME

_FLIGHT = "origin string, delay double"
_ROW = "origin string, delay double, departed long"
_WINDOW = ["origin", "start", "departures", "mean_delay", "batch"]
_LOST = (ConnectionRefusedError, ConnectionResetError, Py4JError)
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
    """Start a small session with this interpreter, more jars and settings, and stop it in the end.

    What its JVM says, which is little if it is local, goes to the log, or to standard error. If
    it is lost meanwhile the demo has failed.
    """
    with ExitStack() as stack:
        with nullcontext() if log is None else _stderr_into(log):
            os.environ["PYSPARK_PYTHON"] = sys.executable
            is_local = master.startswith("local")
            log_level = "OFF" if is_local else "WARN"
            given = {**_SETTINGS, "spark.log.level": log_level, **(settings or {})}
            given["spark.driver.defaultJavaOptions"] = (
                f"-Djava.io.tmpdir={tempfile.gettempdir()}"
            )
            given |= _ON_THIS_MACHINE if is_local else {}
            given |= {"spark.jars": ",".join(map(str, jars))} if jars else {}
            builder = SparkSession.builder.master(master).appName("tidegauge-demo")
            spark = builder.config(map=given).getOrCreate()
            spark.sparkContext.setLogLevel(log_level)
            stack.callback(_stop, spark)
        try:
            yield spark
        except _LOST as error:
            if isinstance(error, Py4JJavaError):  # Spark itself says what is wrong
                raise
            msg = f"Spark ended before the demo did: {error}"
            raise DemoFailedError(msg) from error


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """Let processes that are started meanwhile write their standard error to a file for good."""
    kept = os.dup(2)
    with log.open("wb") as file:
        os.dup2(file.fileno(), 2)
    try:
        yield
    except Exception:
        os.write(kept, log.read_bytes())
        raise
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _stop(spark: SparkSession) -> None:
    try:
        spark.stop()
    except _LOST as error:  # nothing is left to be stopped
        if isinstance(error, Py4JJavaError):
            raise


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
    return 0 if progress is None else sum(_end(progress)["position"].values())


def has_ended(query: StreamingQuery) -> bool:
    """Whether a finished batch of a query reported that its stream has ended."""
    progress = query.lastProgress
    return progress is not None and bool(_end(progress)["bound"] == END_OF_TIME)


def batches_done(query: StreamingQuery) -> int:
    """Count the finished batches of a query, and the next one once it waits for rows.

    Spark's progress names the next batch then.
    """
    progress = query.lastProgress
    return 0 if progress is None else progress["batchId"] + 1


def raise_failure(query: StreamingQuery) -> None:
    """Raise `DemoFailedError` if a query has failed."""
    error = query.exception()
    if error is not None:
        raise DemoFailedError(str(error))


class WindowFolder:
    """Finished windows as CSV, a file for each batch: a batch that is repeated writes its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def take(self, windows: DataFrame, batch: int) -> None:
        """Store what a batch finished."""
        found = windows.toPandas()
        if len(found):
            unfinished = self._folder / f".{batch:08}"
            found.to_csv(unfinished, index=False)
            unfinished.replace(self._folder / f"{batch:08}.csv")

    def read(self) -> pd.DataFrame:
        """Read all that was stored, and the batch of each, in order of batch."""
        files = sorted(self._folder.glob("*.csv"))
        stored = [pd.read_csv(one).assign(batch=int(one.stem)) for one in files]
        return pd.concat(stored or [pd.DataFrame(columns=_WINDOW)], ignore_index=True)


def checkpoint_in(folder: Path) -> Path:
    """Name the folder of a query's checkpoint in the query's folder."""
    return folder / "checkpoint"


class WindowQuery:
    """Departures and mean delay per origin and hour, from one streaming source.

    The flights have ``event_time``, ``origin`` and ``delay``. The folder gets the windows and the
    checkpoint. What is to be done after each batch may wait, and the next one is planned later.
    """

    def __init__(
        self,
        name: str,
        flights: DataFrame,
        folder: Path,
        *,
        every: str = "0 seconds",
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.windows = WindowFolder(folder / "windows")

        def take(windows: DataFrame, batch: int) -> None:
            self.windows.take(windows, batch)
            after()

        windows = (
            flights.groupBy("origin", F.window("event_time", "1 hour"))
            .agg(F.count(F.lit(1)).alias("departures"), F.avg("delay").alias("mean_delay"))
            .withColumn("start", F.unix_millis("window.start"))
            .select(*_WINDOW[:-1])
        )
        self.query = (
            windows.writeStream.outputMode("append")
            .queryName(name)
            .option("checkpointLocation", str(checkpoint_in(folder)))
            .trigger(processingTime=every)
            .foreachBatch(take)
            .start()
        )

    def finish(self) -> ClosedWindows:
        """Wait until everything is read, stop, and tell what was closed."""
        self.query.processAllAvailable()
        progress: Any = self.query.lastProgress
        self.query.stop()
        (state,) = progress["stateOperators"]
        return ClosedWindows(
            self.name,
            self.windows.read(),
            never_closed=state["numRowsTotal"],
            counted=dropped_rows(self.query),
        )


def read_flights_stream(
    spark: SparkSession,
    address: StreamAddress,
    **options: Any,  # noqa: ANN401 (of the source)
) -> DataFrame:
    """Read the flights with the watermark that their carriers noted.

    They are in the stream itself, unless options of the source say where.
    """
    token: dict[str, Any] = {} if address.token is None else {"token": address.token}
    more = {**token, **options}
    rows = read_stream(
        spark, operators="windows", url=address.url, stream=address.stream, **more
    )
    return flights_of(rows)


def flights_of(rows: DataFrame) -> DataFrame:
    """Read ``origin`` and ``delay`` from the ``value`` of rows, beside their ``event_time``."""
    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    return rows.select("event_time", flight.alias("flight")).select("event_time", "flight.*")


def baseline_query(
    spark: SparkSession, arrivals: Path, delay_h: int, folder: Path
) -> WindowQuery:
    """Count the flights of a folder, a file a batch, with Spark's guess of the watermark.

    A row without an origin tells the end, to the watermark alone.
    """
    rows = spark.readStream.schema(_ROW).option("maxFilesPerTrigger", 1).parquet(str(arrivals))
    flights = rows.withColumn("event_time", F.timestamp_millis("departed"))
    guessed = flights.withWatermark("event_time", f"{delay_h} hours")
    # Without an observation the filter would be moved in front of the watermark.
    observed = guessed.observe("rows", F.count(F.lit(1)).alias("rows"))
    return WindowQuery(f"delay {delay_h} h", observed.where("origin is not null"), folder)


def _end(progress: Any) -> Any:  # noqa: ANN401 (JSON)
    return read_offset(progress["sources"][0]["endOffset"])
