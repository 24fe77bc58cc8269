"""What has to hold of a table at each version, read from its log and files without Spark."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tidegauge.event_time import to_event_time
from tidegauge.tables.delta import DeltaLog


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
    """

    rows: Sequence[tuple[object, int]]
    until: int | None
    late: int = 0


def read(path: str, key: str, time: str) -> list[Version]:
    """Read all versions of a Delta table, oldest first."""
    versions, known = [], set[str]()
    for commit in reversed(list(DeltaLog(path).newest_first())):
        files = set(DeltaTable(path, version=commit.version).file_uris())
        rows: list[tuple[object, int]] = []
        for file in sorted(files - known):
            for row in pq.read_table(file).to_pylist():
                at: datetime = row[time]
                rows.append((row[key], to_event_time(at.replace(tzinfo=UTC))))
        known |= files
        late = 0 if commit.note is None else commit.note.late
        versions.append(Version(rows, commit.time, late))
    return versions


def check(versions: Sequence[Version]) -> None:
    """Assert the laws: rows behind a note are those counted as late, time never falls, rows are once."""
    noted = [one.until for one in versions if one.until is not None]
    assert noted == sorted(noted), "time falls"
    again = [key for key, number in Counter(_keys(versions)).items() if number > 1]
    assert not again, "rows are in two versions"
    former: int | None = None
    for one in versions:
        late = sum(former is not None and time < former for _, time in one.rows)
        assert late == one.late, "rows are behind a note"
        former = one.until if one.until is not None else former


def _keys(versions: Sequence[Version]) -> list[object]:
    return [key for one in versions for key, _ in one.rows]
