"""What the snapshots of an Iceberg table changed, file by file."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, DataFileContent, ManifestEntryStatus
from pyiceberg.table.snapshots import Operation, Snapshot

from tidegauge.intervals import GoneError
from tidegauge.local_days import DAY_MS
from tidegauge.tables.columns import extent_of, read_times
from tidegauge.tables.errors import UnreadableTableError
from tidegauge.tables.iceberg import (
    IcebergLog,
    changed_entries,
    entries_of,
    operation_of,
    summary_of,
    version_of,
)
from tidegauge.tables.work import Change, File

_CHANGES = (
    "added-data-files",
    "deleted-data-files",
    "added-delete-files",
    "removed-delete-files",
)
_PER_MS = {
    "timestamp": 1_000,
    "timestamptz": 1_000,
    "timestamp_ns": 1_000_000,
    "timestamptz_ns": 1_000_000,
}


class IcebergFiles:
    """The files of an Iceberg table.

    Parameters
    ----------
    name, catalog
        As `IcebergLog` takes them.
    """

    def __init__(self, name: str, catalog: Mapping[str, str]) -> None:
        self.log = IcebergLog(name, catalog)
        self.kind = ""
        self._name, self._field_id = "", -1
        self._left = list[Snapshot]()
        self._later = list[Snapshot]()

    def read_behind(self, since: int) -> int:
        """Find the snapshots behind a version, and return how many they are.

        They are the ancestors of the current one that are none of that version's, and those of its
        line that the current one lacks: a rollback is no snapshot.

        Raises
        ------
        GoneError
            If they are not all kept.
        """
        history = self.log.history
        now, then = list(history.ancestors()), list(history.ancestors(since))
        line, kept = ({snapshot.snapshot_id for snapshot in part} for part in (then, now))
        self._later = [snapshot for snapshot in now if snapshot.snapshot_id not in line][::-1]
        self._left = [snapshot for snapshot in then if snapshot.snapshot_id not in kept]
        # Where the version's own snapshot expired, all behind it may be kept: each number up to the
        # oldest was taken by a snapshot that is none of this line, such as one of a branch.
        oldest = version_of(self._later[0]) if self._later and not then else since
        is_whole = oldest > since and all(map(history.at, range(since + 1, oldest)))
        if not line & kept and not is_whole:
            problem = f"does not keep the snapshots behind version {since} any more"
            raise GoneError(self.log.name, problem)
        return len(self._later)

    def choose(self, column: str) -> str:
        """Take a column, which may be a field such as ``window.start``, as event time.

        Return its name as the table has it, where case may differ, as Spark has it.

        Raises
        ------
        ValueError
            If there is no such column.
        """
        schema = self.log.table.schema()
        try:
            field = schema.find_field(column, case_sensitive=column in schema.column_names)
        except ValueError:
            msg = f"event_time={column!r} is no column of {self.log.name}"
            raise ValueError(msg) from None
        self._field_id = field.field_id
        self._name = schema.find_column_name(field.field_id) or column
        self._type: Any = field.field_type
        self.kind = str(field.field_type)
        return self._name

    def changes(self) -> Iterator[Change]:
        """List what the snapshots since the cursor changed: first those that were left."""
        for snapshot in self._left:
            change = self._change(snapshot)
            yield Change(removed=[*change.added, *change.removed])
        commits = islice(self.log.newest_first(), len(self._later))
        for snapshot, commit in zip(self._later, [*commits][::-1], strict=True):
            change = self._change(snapshot)
            yield Change(change.added, change.removed, commit)

    def times(self, file: File, below: int) -> list[int]:
        """Read the event times of a file that are below one, ms.

        Raises
        ------
        GoneError
            If the file was deleted.
        """
        try:
            with self.log.table.io.new_input(file.path).open() as data:
                fields = parquet.read_schema(data)
                data.seek(0)
                path = _by_id(fields, self._field_id) or self._name.split(".")
                return read_times(data, path, below)
        except FileNotFoundError:
            raise GoneError(self.log.name, f"keeps {file.path} no more") from None
        except OSError as error:
            raise UnreadableTableError.of(self.log.name, error) from error

    def extent(self, version: int) -> tuple[int, int] | None:
        """Find the least and the greatest event time at a version, ms; None without one."""
        snapshot = self.log.history.at(version)
        if snapshot is None:
            return None
        data = (entry.data_file for entry in entries_of(self.log.table, snapshot))
        files = [self._file(file) for file in data if file.content == DataFileContent.DATA]
        return extent_of(self, files)

    def _change(self, snapshot: Snapshot) -> Change:
        summary = summary_of(snapshot)
        is_counted = "total-data-files" in summary
        if operation_of(snapshot) == Operation.REPLACE or (
            is_counted and not any(summary.get(name, "0") != "0" for name in _CHANGES)
        ):
            return Change()
        added, removed = list[File](), list[File]()
        for entry in changed_entries(self.log.table, snapshot):
            if entry.data_file.content != DataFileContent.DATA:
                # A file of deletes does not say what it touches.
                low, high = self.extent(version_of(snapshot)) or (None, None)
                removed.append(File(entry.data_file.file_path, 0, low, high))
            else:
                is_added = entry.status == ManifestEntryStatus.ADDED
                (added if is_added else removed).append(self._file(entry.data_file))
        return Change(added, removed)

    def _file(self, data: DataFile) -> File:
        low, high = (self._bound(bounds) for bounds in (data.lower_bounds, data.upper_bounds))
        return File(data.file_path, data.record_count, low, high)

    def _bound(self, bounds: dict[int, bytes] | None) -> int | None:
        bound = (bounds or {}).get(self._field_id)
        if bound is None:
            return None
        value: Any = from_bytes(self._type, bound)
        return int(value * DAY_MS if self.kind == "date" else value // _PER_MS[self.kind])


def _by_id(fields: pa.Schema | list[pa.Field], field_id: int) -> list[str]:
    """Find where a field lies in a file, which keeps the names that it was written with."""
    for field in fields:
        if (field.metadata or {}).get(b"PARQUET:field_id") == str(field_id).encode():
            return [field.name]
        if pa.types.is_struct(field.type) and (path := _by_id(list(field.type), field_id)):
            return [field.name, *path]
    return []
