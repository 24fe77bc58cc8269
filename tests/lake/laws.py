"""What has to hold of a table at each version, read from its log and files without Spark."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog import load_catalog
from pyiceberg.manifest import ManifestEntryStatus
from pyiceberg.table.snapshots import Operation

from tests.lake.lakes import Lake
from tidegauge.event_time import to_event_time
from tidegauge.marks import Mark
from tidegauge.tables.service import SEGMENT


@dataclass(frozen=True)
class Version:
    """What a commit added, and said.

    Attributes
    ----------
    rows
        Their ids and times in ms.
    until
        Of its note, ms; None if that has none.
    late
        Of its note.
    number
        Of the version.
    """

    rows: Sequence[tuple[object, int]]
    until: int | None
    late: int = 0
    number: int = 0


def read(lake: Lake, name: str, key: str, time: str) -> list[Version]:
    """Read all versions of a table, oldest first."""
    added = _of_delta if lake.format == "delta" else _of_iceberg
    files = added(lake, name)
    versions = []
    for commit in reversed(list(lake.log(name).newest_first())):
        rows = [
            (row[key], to_event_time(row[time].replace(tzinfo=UTC)))
            for file in files.get(commit.version, ())
            for row in pq.read_table(file, partitioning=None).to_pylist()
        ]
        late = 0 if commit.note is None else commit.note.late
        versions.append(Version(rows, commit.time, late, commit.version))
    return versions


def _of_delta(lake: Lake, name: str) -> dict[int, list[str]]:
    """Find the files that each commit added, but for those that were compacted."""
    table = Path(lake.table(name))
    found = {}
    for entry in (table / "_delta_log").glob("*.json"):
        actions = map(json.loads, entry.read_text().splitlines())
        adds = [action["add"] for action in actions if "add" in action]
        found[int(entry.stem)] = [str(table / one["path"]) for one in adds if one["dataChange"]]
    return found


def _of_iceberg(lake: Lake, name: str) -> dict[int, list[str]]:
    """See above; of a snapshot that replaces files it reads none."""
    catalog = dict(lake.catalog or {})
    table = load_catalog(catalog.pop("name"), **catalog).load_table(lake.table(name))
    found: dict[int, list[str]] = {}
    for one in table.snapshots():
        assert one.summary is not None
        assert one.sequence_number is not None
        if one.summary.operation == Operation.REPLACE:
            continue
        own = [
            each
            for each in one.manifests(table.io)
            if each.added_snapshot_id == one.snapshot_id
        ]
        entries = [entry for each in own for entry in each.fetch_manifest_entry(table.io)]
        added = [entry for entry in entries if entry.status == ManifestEntryStatus.ADDED]
        paths = [entry.data_file.file_path.removeprefix("file:") for entry in added]
        found[one.sequence_number] = paths
    return found


def check(versions: Sequence[Version]) -> None:
    """Assert the laws: rows behind a note are those counted as late, time never falls, rows are once."""
    noted = [one.until for one in versions if one.until is not None]
    assert noted == sorted(noted), "time falls"
    rows = Counter(row for one in versions for row in one.rows)
    again = [row for row, number in rows.items() if number > 1]
    assert not again, "rows are in two versions"
    former: int | None = None
    for one in versions:
        late = sum(former is not None and time < former for _, time in one.rows)
        assert late == one.late, "rows are behind a note"
        former = one.until if one.until is not None else former


def check_marks(versions: Sequence[Version], marks: Sequence[Mark]) -> None:
    """Assert that no row is behind a mark of the service, and that notes are marks their parents cover."""
    for mark in marks:
        behind = [one for one in versions if one.number >= mark.cut[SEGMENT]]
        below = [key for one in behind for key, time in one.rows if time < mark.lower]
        assert not below, "rows are behind a mark"
    for before, one in pairwise(versions):
        covered = [mark.lower for mark in marks if mark.cut[SEGMENT] <= before.number + 1]
        known = one.until is None or one.until in covered
        assert known, "a note is no mark that its parent covers"
