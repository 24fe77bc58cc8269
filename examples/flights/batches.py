"""The batches of Tidegauge's query, which every other query reads again."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from examples.flights.address import StreamAddress
from reader_client import StreamClient
from spark_source.compatibility import read_offset
from tidegauge.event_time import END_OF_TIME

# 9999-12-31: about the latest time that Spark can hold. A row of it closes every window.
END_MS = 253_402_214_400_000
_ROW = pa.schema([("origin", pa.string()), ("delay", pa.float64()), ("departed", pa.int64())])


def read_arrivals(address: StreamAddress) -> pd.DataFrame:
    """Read the flights back in the order of their stream, which has one segment.

    The columns are ``carrier``, ``origin``, ``delay``, ``departed`` and ``landed``, the index is of
    the segment and the offset.
    """
    with StreamClient(address.url, address.stream, token=address.token) as client:
        pages = [page.batch for page in client.read(0, 0, client.tail().tail[0])]
    events = pa.Table.from_batches(pages).to_pandas()
    place = pd.MultiIndex.from_product([[0], range(len(events))])
    return arrivals_of(events["key"], events["value"], events["event_time"], place)


def arrivals_of(
    keys: "pd.Series[str]",
    values: "pd.Series[bytes]",
    departed: "pd.Series[int]",
    place: pd.MultiIndex,
) -> pd.DataFrame:
    """Read flights as carriers write them; the place is their segment and offset."""
    flights = pd.DataFrame([json.loads(value) for value in values])
    flights.insert(0, "carrier", keys.str.split("-").str[0])
    flights.insert(3, "departed", departed)
    return flights.set_index(place)


def cut(arrivals: pd.DataFrame, progress: Sequence[Any]) -> pd.DataFrame:
    """Find ``rows``, ``clock`` and ``watermark`` (ms) of each batch up to the one that told the end.

    Adds the column ``batch`` to the arrivals, whose index is of segment and offset. The progress is that of Tidegauge's query, batch by
    batch. The clock is when the newest flight that was read landed, or the time that the
    watermark told where no flight landed since: the replay was at least there.
    """
    ends = [read_offset(one["sources"][0]["endOffset"]) for one in progress]
    told = [end["bound"] or 0 for end in ends]
    told = told[: told.index(END_OF_TIME) + 1]
    read = pd.DataFrame([end["position"] for end in ends[: len(told)]], dtype="Int64").fillna(0)
    segments, offsets = (arrivals.index.get_level_values(level) for level in (0, 1))
    arrivals["batch"] = 0
    for segment in segments.unique():
        own = segments == segment
        reached = np.searchsorted(read[str(segment)], offsets[own], side="right")
        arrivals.loc[own, "batch"] = reached
    newest = arrivals.groupby("batch")["landed"].max().reindex(range(len(told)), fill_value=0)
    reached = [0 if one == END_OF_TIME else one for one in told]
    clock = np.maximum.accumulate(np.maximum(newest, reached))
    rows = np.bincount(arrivals["batch"], minlength=len(told))
    found = {"rows": rows, "clock": clock, "watermark": told}
    return pd.DataFrame(found).rename_axis("batch")


def write_arrivals(arrivals: pd.DataFrame, batches: int, folder: Path) -> None:
    """Write a file for each batch, also for one without rows, and the end into the last."""
    folder.mkdir()
    end = pd.DataFrame({"departed": [END_MS], "batch": [batches - 1]})
    rows = pd.concat([arrivals[[*_ROW.names, "batch"]], end], ignore_index=True)
    for number in range(batches):
        found = pa.Table.from_pandas(
            rows[rows["batch"] == number], schema=_ROW, preserve_index=False
        )
        path = folder / f"{number:05}.parquet"
        parquet.write_table(found, path)
        os.utime(path, (number, number))  # Spark reads the oldest file first
