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

from reader_client import StreamClient
from tidegauge.event_time import END_OF_TIME
from tidegauge_cli.demo.address import StreamAddress

# 9999-12-31: about the latest time that Spark can hold. A row of it closes every window.
_END_MS = 253_402_214_400_000
_ROW = pa.schema([("origin", pa.string()), ("delay", pa.float64()), ("departed", pa.int64())])


def read_arrivals(address: StreamAddress) -> pd.DataFrame:
    """Read the flights back in the order of their stream, which has one segment.

    The columns are ``carrier``, ``origin``, ``delay``, ``departed`` and ``landed``.
    """
    with StreamClient(address.url, address.stream, token=address.token) as client:
        pages = [page.batch for page in client.read(0, 0, client.tail().tail[0])]
    events = pa.Table.from_batches(pages).to_pandas()
    flights = pd.DataFrame([json.loads(value) for value in events["value"]])
    flights.insert(0, "carrier", events["key"].str.split("-").str[0])
    flights.insert(3, "departed", events["event_time"])
    return flights


def cut(arrivals: pd.DataFrame, progress: Sequence[Any]) -> pd.DataFrame:
    """Find ``rows``, ``clock`` and ``watermark`` (ms) of each batch up to the one that told the end.

    Adds the column ``batch`` to the arrivals. The progress is that of Tidegauge's query, batch by
    batch. The clock is when the newest flight that was read landed, or the time that the
    watermark told where no flight landed since: the replay was at least there.
    """
    ends = [json.loads(one["sources"][0]["endOffset"]) for one in progress]
    told = [end["bound"] or 0 for end in ends]
    told = told[: told.index(END_OF_TIME) + 1]
    read = np.array([sum(end["position"].values()) for end in ends[: len(told)]])
    arrivals["batch"] = np.searchsorted(read, np.arange(len(arrivals)), side="right")
    newest = arrivals.groupby("batch")["landed"].max().reindex(range(len(told)), fill_value=0)
    reached = [0 if one == END_OF_TIME else one for one in told]
    clock = np.maximum.accumulate(np.maximum(newest, reached))
    return pd.DataFrame(
        {"rows": np.diff(read, prepend=0), "clock": clock, "watermark": told}
    ).rename_axis("batch")


def write_arrivals(arrivals: pd.DataFrame, batches: int, folder: Path) -> None:
    """Write a file for each batch, also for one without rows, and the end into the last."""
    folder.mkdir()
    end = pd.DataFrame({"departed": [_END_MS], "batch": [batches - 1]})
    rows = pd.concat([arrivals[[*_ROW.names, "batch"]], end])
    for number in range(batches):
        found = pa.Table.from_pandas(
            rows[rows["batch"] == number], schema=_ROW, preserve_index=False
        )
        path = folder / f"{number:05}.parquet"
        parquet.write_table(found, path)
        os.utime(path, (number, number))  # Spark reads the oldest file first
