"""The batches of a query: what each read, and the same rows for other queries."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from spark_source.compatibility import read_offset
from tidegauge.event_time import END_OF_TIME

# 9999-12-31: about the latest time that Spark can hold. A row of it closes every window.
END_MS = 253_402_214_400_000
_ROW = pa.schema([("origin", pa.string()), ("delay", pa.float64()), ("departed", pa.int64())])


class Batch(NamedTuple):
    """How far a batch read each segment, and the watermark (ms) that it sets for the batches after it."""

    position: Mapping[str, int]
    watermark: int


def finished(progress: Iterable[Any]) -> list[Any]:
    """Return one progress a batch; while a query waits for rows, Spark reports the next one, too."""
    return list({batch["batchId"]: batch for batch in progress}.values())


def batches_of(progress: Iterable[Any]) -> list[Batch]:
    """Return the batches of a query with Tidegauge's source, up to the one that reached the end."""
    batches = []
    for batch in finished(progress):
        end = read_offset(batch["sources"][0]["endOffset"])
        batches.append(Batch(end["position"], end["bound"] or 0))
        if end["bound"] == END_OF_TIME:
            break
    return batches


def arrivals_of(events: pd.DataFrame) -> pd.DataFrame:
    """Return the flights of ``key``, ``value`` and ``event_time``, indexed by segment and offset."""
    flights = pd.DataFrame([json.loads(value) for value in events["value"]], index=events.index)
    flights.insert(0, "carrier", events["key"].str.split("-").str[0])
    flights.insert(3, "departed", events["event_time"])
    return flights


def cut(arrivals: pd.DataFrame, batches: Sequence[Batch]) -> pd.DataFrame:
    """Add the ``batch`` of each arrival, and return ``rows``, ``clock`` and ``watermark`` of each batch.

    The clock (ms) is when the newest flight landed that was read, or the watermark where no flight
    landed since: the replay was there at least.
    """
    read = pd.DataFrame([batch.position for batch in batches], dtype="Int64").fillna(0)
    segments, offsets = (arrivals.index.get_level_values(level) for level in (0, 1))
    arrivals["batch"] = 0
    for segment in segments.unique():
        own = segments == segment
        reached = np.searchsorted(read[str(segment)], offsets[own], side="right")
        arrivals.loc[own, "batch"] = reached
    watermarks = [batch.watermark for batch in batches]
    newest = (
        arrivals.groupby("batch")["landed"].max().reindex(range(len(batches)), fill_value=0)
    )
    reached = [0 if watermark >= END_MS else watermark for watermark in watermarks]
    clock = np.maximum.accumulate(np.maximum(newest, reached))
    rows = np.bincount(arrivals["batch"], minlength=len(batches))
    columns = {"rows": rows, "clock": clock, "watermark": watermarks}
    return pd.DataFrame(columns).rename_axis("batch")


def write_arrivals(arrivals: pd.DataFrame, batches: int, folder: Path) -> None:
    """Write a file for each batch, also for one without rows, and the end of time into the last."""
    folder.mkdir()
    end = pd.DataFrame({"departed": [END_MS], "batch": [batches - 1]})
    rows = pd.concat([arrivals[[*_ROW.names, "batch"]], end], ignore_index=True)
    for number in range(batches):
        own = rows[rows["batch"] == number]
        path = folder / f"{number:05}.parquet"
        parquet.write_table(pa.Table.from_pandas(own, schema=_ROW, preserve_index=False), path)
        os.utime(path, (number, number))  # Spark reads the oldest file first
