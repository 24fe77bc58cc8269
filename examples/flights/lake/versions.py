"""What each version of a table brought and declared, read from its log and files without Spark."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pyarrow.parquet as pq
from deltalake import DeltaTable

from examples.flights.waiting import FlightsError
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
        Until when the table was complete, ms, by the versions that declare it.
    batches
        Of the query that wrote it, by version.
    versions, files
        How many there are.
    """

    name: str
    rows: pd.DataFrame
    times: Mapping[int, int]
    batches: Mapping[int, int]
    versions: int
    files: int

    def clock(self, by: str) -> "pd.Series[int]":
        """Return when the newest flight landed, up to each ``version`` or ``file``."""
        newest = self.rows.groupby(by)["landed"].max()
        number = self.versions if by == "version" else self.files
        return newest.reindex(range(number)).cummax().ffill()

    def versions_read(self, checkpoint: str) -> dict[int, int]:
        """Return, for each version, the newest one of the table before that it rests on."""
        logged, read = Checkpoint(checkpoint), {}
        for version, batch in self.batches.items():
            ends = (end for end in logged.batch(batch).ends if isinstance(end, dict))
            (end,) = (end for end in ends if "reservoirVersion" in end)
            # Below 0 nothing of the version is read yet.
            read[version] = end["reservoirVersion"] - (end["index"] < 0)
        return read


def read_versions(table: Path, time: str) -> Versions:
    """Read the history of a Delta table whose rows have their time in a column."""
    times, batches = dict[int, int](), dict[int, int]()
    files = list[pd.DataFrame]()
    commits = sorted(DeltaLog(str(table)).newest_first(), key=lambda commit: commit.version)
    for commit in commits:
        version = commit.version
        if commit.time is not None:
            times[version] = commit.time
        entry = (table / "_delta_log" / f"{version:020}.json").read_text()
        for action in map(json.loads, entry.splitlines()):
            if "txn" in action:
                batches[version] = action["txn"]["version"]
            if "add" in action:
                rows = pq.read_table(table / unquote(action["add"]["path"])).to_pandas()
                files.append(rows.assign(version=version, file=len(files)))
    empty = DeltaTable(str(table)).to_pandas().assign(version=0, file=0).head(0)
    rows = pd.concat([file for file in files if len(file)] or [empty], ignore_index=True)
    rows[time] = pd.to_datetime(rows[time], utc=True).dt.as_unit("ms").astype("int64")
    if "departures" not in rows:
        rows["departures"] = 1
    return Versions(table.name, rows, times, batches, len(commits), len(files))


def check_versions(versions: Versions, truth: pd.DataFrame, time: str) -> int:
    """Check the rows below the time of each version, and all rows in the end, against the truth.

    Returns how many versions declare a time.

    Raises
    ------
    FlightsError
        If a row below the time of a version came later, the time fell, the last version is not
        complete for good, or the rows are others.
    """
    declared = [*versions.times.values()]
    if declared != sorted(declared) or declared[-1:] != [END_OF_TIME]:
        msg = f"{versions.name}: the time fell, or is not at the end in the last version"
        raise FlightsError(msg)
    rows = versions.rows
    for version, until in versions.times.items():
        below = _sums(rows[(rows["version"] <= version) & (rows[time] < until)])
        expected = _sums(truth[truth[time] < until])
        if below != expected:
            msg = (
                f"{versions.name} has {below} rows and flights below {describe_event_time(until)} "
                f"at version {version}, which declares that it is complete; there are {expected}"
            )
            raise FlightsError(msg)
    columns = list(truth.columns)
    ours, theirs = (
        sorted(table[columns].itertuples(index=False, name=None)) for table in (rows, truth)
    )
    if ours != theirs:
        msg = f"{versions.name} has other rows than pandas"
        raise FlightsError(msg)
    return len(declared)


def _sums(rows: pd.DataFrame) -> tuple[int, int, float]:
    return len(rows), int(rows["departures"].sum()), float(rows["delay"].sum())
