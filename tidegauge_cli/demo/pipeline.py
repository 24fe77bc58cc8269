"""The query of the demo alone, for a Spark cluster and a service that run elsewhere.

It may start before, while or after the flights are replayed, and be stopped and started again:
its windows are the same.
"""

import time
from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from tidegauge_cli.demo.address import StreamAddress
from tidegauge_cli.demo.flights import of_first_days, read_flights, truth
from tidegauge_cli.demo.queries import (
    dropped_rows,
    read_flights_stream,
    running_spark,
    start_windows,
)
from tidegauge_cli.demo.waiting import (
    DemoFailedError,
    interruptible,
    wait_until,
    watch_until,
)
from tidegauge_cli.demo.windows import lost_rows, wrong_windows

_END_OF_TIME = "9999-12-31T23:59:59.999Z"
_PATIENCE_S = 600.0


class WindowFolder:
    """Finished windows as CSV, a file for each batch: a batch that is repeated writes its own.

    Parameters
    ----------
    folder
        Where the files go; made if it is not there.
    """

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
        """Read all that was stored, in order of batch."""
        files = sorted(self._folder.glob("*.csv"))
        columns = ["origin", "start", "departures", "mean_delay"]
        stored = [pd.DataFrame({name: [] for name in columns}), *map(pd.read_csv, files)]
        return pd.concat(stored[1:] or stored, ignore_index=True)


def run_pipeline(address: StreamAddress, *, days: int, master: str, output: Path) -> int:
    """Count the flights of a stream on a cluster until it is sealed, and compare with the truth.

    Parameters
    ----------
    address
        The stream; waited for if it is not there yet.
    days
        How many days the producer replays.
    master
        Where Spark runs.
    output
        Folder for the checkpoint, which the executors share, and the windows.

    Returns
    -------
    int
        The exit status: 0 if every window was right and nothing was lost.
    """
    console = Console(soft_wrap=True)
    windows = WindowFolder(output / "windows")
    try:
        with interruptible():
            _wait_for_stream(console, address)
            with running_spark(master) as spark:
                dropped = _count(console, spark, address, output / "checkpoint", windows)
    except KeyboardInterrupt:
        console.print("stopped; started again it goes on from its checkpoint")
        return 130
    except DemoFailedError as error:
        console.print(f"[bold red]{error}")
        return 1
    return _compare(console, windows.read(), days=days, dropped=dropped)


def _wait_for_stream(console: Console, address: StreamAddress) -> None:
    console.print(f"waiting for {address.stream}")
    wait_until(
        lambda: address.describe() is not None,
        address.stream,
        check=lambda: None,
        patience_s=_PATIENCE_S,
    )


def _count(
    console: Console,
    spark: SparkSession,
    address: StreamAddress,
    checkpoint: Path,
    windows: WindowFolder,
) -> int:
    """Run the query until event time has ended; return how many rows Spark dropped."""
    flights = read_flights_stream(spark, address)
    query = start_windows("flights", flights, checkpoint, windows.take)
    patience = Patience(query, address)
    watch_until(
        lambda: _watermark(query) == _END_OF_TIME,
        lambda: console.print(
            f"watermark {_watermark(query) or 'none yet'}  {len(windows.read())} windows"
        ),
        go_on=patience.check,
    )
    query.processAllAvailable()
    query.stop()
    return dropped_rows(query)


def _compare(console: Console, found: pd.DataFrame, *, days: int, dropped: int) -> int:
    expected = truth(of_first_days(read_flights()[0], days))
    wrong, lost = wrong_windows(found, expected), lost_rows(found, expected)
    console.print(
        f"{len(found)} of {len(expected)} windows closed, {wrong} wrong; {lost} of "
        f"{expected['departures'].sum()} rows lost; Spark dropped {dropped}"
    )
    return 1 if wrong or lost or dropped else 0


def _watermark(query: StreamingQuery) -> str | None:
    progress = query.lastProgress
    return None if progress is None else progress["eventTime"].get("watermark")


class Patience:
    """Gives a query up that failed, or that nothing comes for any more.

    Parameters
    ----------
    query
        Which.
    address
        What it reads.
    """

    def __init__(self, query: StreamingQuery, address: StreamAddress) -> None:
        self._query = query
        self._address = address
        self._batch = -1
        self._moved_s = time.monotonic()

    def check(self) -> None:
        """Raise `DemoFailedError` if it is in vain to wait for the query."""
        error = self._query.exception()
        if error is not None:
            raise DemoFailedError(str(error))
        progress = self._query.lastProgress
        batch = -1 if progress is None else progress["batchId"]
        if batch != self._batch:
            self._batch, self._moved_s = batch, time.monotonic()
        elif time.monotonic() - self._moved_s > _PATIENCE_S:
            msg = (
                f"nothing came from {self._address.stream} for {_PATIENCE_S:.0f} s: does its "
                "producer run? Start it again, then this; both go on where they were"
            )
            raise DemoFailedError(msg)
