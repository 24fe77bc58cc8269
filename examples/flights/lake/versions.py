"""What each version of a table brought and said, read from its log and files without Spark."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pandas as pd
import pyarrow.parquet as pq
from deltalake import DeltaTable

from examples.flights.waiting import DemoFailedError
from spark_source.checkpoints.checkpoint import Checkpoint
from tidegauge.event_time import END_OF_TIME, describe_event_time
from tidegauge.tables.delta import DeltaLog


@dataclass(frozen=True, slots=True)
class Versions:
    """A table's history.

    Attributes
    ----------
    name
        Of the table.
    rows
        All that was ever appended: the table's columns, with its time in ms and ``departures``;
        and the ``version`` and the number of the ``file`` of each.
    times
        Until when it was complete, ms, by the versions that say so.
    batches
        Of the query that wrote it, by version.
    versions
        How many there are.
    files
        How many there are, with rows or without.
    """

    name: str
    rows: pd.DataFrame
    times: Mapping[int, int]
    batches: Mapping[int, int]
    versions: int
    files: int

    def arrivals(self) -> pd.DataFrame:
        """Take its rows for a job that reads a file a batch."""
        return self.rows.rename(columns={"file": "batch"}).drop(columns="departures")

    def clock(self, by: Literal["version", "file"]) -> "pd.Series[int]":
        """Tell when the newest flight landed, version by version or file by file."""
        newest = self.rows.groupby(by)["landed"].max()
        number = self.versions if by == "version" else self.files
        return newest.reindex(range(number)).cummax().ffill()

    def versions_read(self, checkpoint: str) -> dict[int, int]:
        """Find, for each version, the newest one of the table before that it rests on."""
        logged, found = Checkpoint(checkpoint), {}
        for version, batch in self.batches.items():
            ends = (end for end in logged.batch(batch).ends if isinstance(end, dict))
            (end,) = (one for one in ends if "reservoirVersion" in one)
            # Below 0 nothing of the version is read yet.
            found[version] = end["reservoirVersion"] - (end["index"] < 0)
        return found


def read_versions(table: Path, time: str) -> Versions:
    """Read the history of a Delta table whose rows have their time in a column."""
    times, batches = dict[int, int](), dict[int, int]()
    found = list[pd.DataFrame]()
    commits = sorted(DeltaLog(str(table)).newest_first(), key=lambda one: one.version)
    for commit in commits:
        version = commit.version
        if commit.time is not None:
            times[version] = commit.time
        entry = (table / "_delta_log" / f"{version:020}.json").read_text()
        actions: list[dict[str, Any]] = [json.loads(line) for line in entry.splitlines()]
        batches.update((version, one["txn"]["version"]) for one in actions if "txn" in one)
        for path in (unquote(one["add"]["path"]) for one in actions if "add" in one):
            rows = pq.read_table(table / path).to_pandas()
            found.append(rows.assign(version=version, file=len(found)))
    empty = DeltaTable(str(table)).to_pandas().assign(version=0, file=0).head(0)
    rows = pd.concat([one for one in found if len(one)] or [empty], ignore_index=True)
    rows[time] = (
        pd.to_datetime(rows[time], utc=True).astype("datetime64[ms, UTC]").astype("int64")
    )
    if "departures" not in rows:
        rows["departures"] = 1
    return Versions(table.name, rows, times, batches, len(commits), len(found))


def check_versions(versions: Versions, truth: pd.DataFrame, time: str) -> int:
    """Check that what is below the time of a version is as in the truth, and all rows in the end.

    Returns how many versions said a time.

    Raises
    ------
    DemoFailedError
        If a row below the time of a version came later, the time fell, the last version is not
        complete for good, or the rows are others.
    """
    said = [*versions.times.values()]
    if said != sorted(said) or said[-1:] != [END_OF_TIME]:
        msg = f"{versions.name}: the time fell, or is not at the end in the last version"
        raise DemoFailedError(msg)
    rows = versions.rows
    for version, until in versions.times.items():
        below = rows[(rows["version"] <= version) & (rows[time] < until)]
        expected = truth[truth[time] < until]
        if _sums(below) != _sums(expected):
            at = describe_event_time(until)
            msg = (
                f"{versions.name} has {_sums(below)} rows and flights below {at} at version "
                f"{version}, which says that it is complete until then; there are {_sums(expected)}"
            )
            raise DemoFailedError(msg)
    columns = list(truth.columns)
    found, wanted = (
        sorted(table[columns].itertuples(index=False, name=None)) for table in (rows, truth)
    )
    if found != wanted:
        msg = f"{versions.name} has other rows than pandas"
        raise DemoFailedError(msg)
    return len(said)


def _sums(rows: pd.DataFrame) -> tuple[int, int, float]:
    return len(rows), int(rows["departures"].sum()), float(rows["delay"].sum())
