"""The snapshots of an Iceberg table, read from its metadata without its files."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from pyiceberg.catalog import load_catalog
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from tidegauge.tables.errors import InvalidNoteError, UnreadableTableError
from tidegauge.tables.history import Commit, covered
from tidegauge.tables.notes import Note

_LEAST_FORMAT = 2
"""Snapshots of format 1 have no sequence numbers."""


class IcebergLog:
    """The snapshots of branch ``main`` of an Iceberg table.

    Parameters
    ----------
    name
        Of the table in the catalog: ``lake.hourly``.
    catalog
        Properties of the catalog, as ``pyiceberg.catalog.load_catalog`` takes them.

    Raises
    ------
    UnreadableTableError
        If there is no table, it cannot be reached, or is of format 1.
    """

    def __init__(self, name: str, catalog: Mapping[str, str]) -> None:
        self.name = name
        self._deletes: dict[int, bool] = {}
        properties = dict(catalog)
        with _failures_of(name):
            loaded = load_catalog(properties.pop("name", "tidegauge"), **properties)
            self._take(loaded.load_table(name))
        version = self._table.metadata.format_version
        if version < _LEAST_FORMAT:
            cure = "upgrade it: ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2')"
            raise UnreadableTableError(
                name, f"is of format {version}, not {_LEAST_FORMAT}; {cure}"
            )

    @property
    def table(self) -> Table:
        """The table as it was read last."""
        return self._table

    @property
    def history(self) -> "SnapshotHistory":
        """Its snapshots."""
        return self._history

    @property
    def table_id(self) -> str:
        """The table's UUID."""
        return str(self._table.metadata.table_uuid)

    def refresh(self) -> None:
        """Read the newest metadata."""
        with _failures_of(self.name):
            self._take(self._table.catalog.load_table(self.name))

    def newest_first(self) -> Iterator[Commit]:
        """List the snapshots that are kept, from the current one back to the first."""
        return self._history.commits(self.name)

    def covered(self, version: int) -> Iterator[Commit]:
        """List, newest first, the commits that are covered where a version is."""
        return covered(self.newest_first(), version)

    def committed(self, query: str) -> int | None:
        """Find the newest batch of a query among the snapshots that are kept; None if none."""
        for snapshot in self._history.ancestors():
            note = Note.from_summary(summary_of(snapshot))
            if note is not None and note.query == query and note.batch is not None:
                return note.batch
        return None

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Whether a snapshot is one of this table's."""
        return self._history.find(snapshot_id) is not None

    def covered_version(
        self, snapshot_id: int, position: int, *, all_files: bool
    ) -> int | None:
        """Find the newest version that an offset of Spark's source covers; None if nothing.

        Parameters
        ----------
        snapshot_id
            One of this table's.
        position
            How many of its files are read.
        all_files
            Whether these are all files of the table, not only those that it added.
        """
        snapshot = self._history.find(snapshot_id)
        if snapshot is None:
            return None
        summary = summary_of(snapshot)
        files = int(summary.get("total-data-files" if all_files else "added-data-files", "0"))
        if position >= files:
            return snapshot.sequence_number
        before = None if all_files else self._history.find(snapshot.parent_snapshot_id)
        return None if before is None else before.sequence_number

    def _take(self, table: Table) -> None:
        self._table = table
        self._history = SnapshotHistory(table.metadata, self._only_deletes)

    def _only_deletes(self, snapshot: Snapshot) -> bool:
        """Whether an overwrite of all files looks as a DELETE does; its manifests are read once."""
        key = snapshot.snapshot_id
        if key not in self._deletes:
            with _failures_of(self.name):
                self._deletes[key] = only_deletes(self._table, snapshot)
        return self._deletes[key]


class SnapshotHistory:
    """The snapshots that the metadata of a table has, in the order of branch ``main``.

    Parameters
    ----------
    metadata
        Of the table.
    only_deletes
        Asked of an overwrite of all files: whether it only deletes rows, by its manifests.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        only_deletes: Callable[[Snapshot], bool] = lambda _: False,
    ) -> None:
        self._only_deletes = only_deletes
        self._by_id = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
        self._versions = {version_of(snapshot) for snapshot in metadata.snapshots}
        self._current = metadata.current_snapshot()
        log = [self.find(entry.snapshot_id) for entry in metadata.snapshot_log]
        self._rolled_back_to, self._begun_elsewhere = set[int](), set[int]()
        for before, after in pairwise(snapshot for snapshot in log if snapshot is not None):
            if version_of(after) < version_of(before):
                self._rolled_back_to.add(after.snapshot_id)
            elif not self._may_descend(after, before):
                self._begun_elsewhere.add(after.snapshot_id)

    def find(self, snapshot_id: int | None) -> Snapshot | None:
        """Find a snapshot by its id."""
        return None if snapshot_id is None else self._by_id.get(snapshot_id)

    def at(self, version: int) -> Snapshot | None:
        """Find the snapshot of a version."""
        return next(
            (snapshot for snapshot in self._by_id.values() if version_of(snapshot) == version),
            None,
        )

    def ancestors(self, version: int | None = None) -> Iterator[Snapshot]:
        """List the snapshots from a version, or from the current one, back as far as they are kept."""
        snapshot = self._current if version is None else self.at(version)
        while snapshot is not None:
            yield snapshot
            snapshot = self.find(snapshot.parent_snapshot_id)

    def commits(self, table: str) -> Iterator[Commit]:
        """List what the snapshots say of rows and of time, newest first.

        Raises
        ------
        InvalidNoteError
            If a note is none.
        """
        for snapshot in self.ancestors():
            version, summary = version_of(snapshot), summary_of(snapshot)
            # What came behind was taken back, and the note of this one rests on it.
            is_back = snapshot.snapshot_id in self._rolled_back_to
            try:
                note = None if is_back else Note.from_summary(summary)
            except ValueError as error:
                raise InvalidNoteError(table, version, str(error)) from None
            yield Commit(
                version=version,
                note=note,
                ends_notes=is_back or self._begins_anew(snapshot),
                has_rows=_may_bring_rows(snapshot),
                at=snapshot.timestamp_ms,
                is_first=snapshot.parent_snapshot_id is None and version <= 1,
            )

    def _begins_anew(self, snapshot: Snapshot) -> bool:
        """Whether it keeps nothing of what was before it."""
        if snapshot.snapshot_id in self._begun_elsewhere:
            return True
        if _replaces_all(snapshot) and not self._only_deletes(snapshot):
            return True
        # pyiceberg forgets a parent that expires. One that is kept was left: CREATE OR REPLACE.
        return (
            snapshot.parent_snapshot_id is None and version_of(snapshot) - 1 in self._versions
        )

    def _may_descend(self, snapshot: Snapshot, other: Snapshot) -> bool:
        """Whether one is an ancestor of another, or may be: what is between them expired."""
        at: Snapshot | None = snapshot
        while at is not None and version_of(at) > version_of(other):
            at = self.find(at.parent_snapshot_id)
        return at is None or at.snapshot_id == other.snapshot_id


def entries_of(table: Table, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """List the files that a table has at a snapshot."""
    for manifest in snapshot.manifests(table.io):
        yield from manifest.fetch_manifest_entry(table.io)


def changed_entries(table: Table, snapshot: Snapshot) -> Iterator[ManifestEntry]:
    """List the files that a snapshot added and removed."""
    for manifest in snapshot.manifests(table.io):
        if manifest.added_snapshot_id == snapshot.snapshot_id:
            for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=False):
                is_own = entry.snapshot_id == snapshot.snapshot_id
                if is_own and entry.status != ManifestEntryStatus.EXISTING:
                    yield entry


def only_deletes(table: Table, snapshot: Snapshot) -> bool:
    """Whether a snapshot looks as a DELETE does that touches all files.

    It has fewer rows than before, and none of its columns has a value beyond those that were
    there. An overwrite that looks so too leaves what such a DELETE and UPDATE could have left.
    """
    summary = summary_of(snapshot)
    added, deleted = (int(summary.get(f"{what}-records", "0")) for what in ("added", "deleted"))
    if not 0 < added < deleted or summary.get("replace-partitions") == "true":
        return False
    files: dict[bool, list[DataFile]] = {True: [], False: []}
    for entry in changed_entries(table, snapshot):
        files[entry.status == ManifestEntryStatus.ADDED].append(entry.data_file)
    before, after = _bounds(table, files[False]), _bounds(table, files[True])
    return bool(before) and all(
        field in before and before[field][0] <= low and high <= before[field][1]
        for field, (low, high) in after.items()
    )


def _bounds(table: Table, files: list[DataFile]) -> dict[int, tuple[Any, Any]]:
    """Find between which values the columns of files are, by their ids, where all files note it."""
    noted = [(file.lower_bounds or {}, file.upper_bounds or {}) for file in files]
    shared = [lows.keys() & highs.keys() for lows, highs in noted]
    ids = set.intersection(*shared) & table.schema().field_ids if shared else set[int]()
    bounds = {}
    for field in ids:
        kind: Any = table.schema().find_type(field)
        lows = [from_bytes(kind, low[field]) for low, _ in noted]
        highs = [from_bytes(kind, high[field]) for _, high in noted]
        bounds[field] = min(lows), max(highs)
    return bounds


def version_of(snapshot: Snapshot) -> int:
    """Return its sequence number."""
    return snapshot.sequence_number or 0


def summary_of(snapshot: Snapshot) -> dict[str, str]:
    """Return what its writer says of it."""
    summary = snapshot.summary
    return {} if summary is None else dict(summary.additional_properties)


def operation_of(snapshot: Snapshot) -> Operation | None:
    """Return what kind of commit it is; None if nobody said."""
    return None if snapshot.summary is None else snapshot.summary.operation


def _replaces_all(snapshot: Snapshot) -> bool:
    """Whether it keeps no file: an overwrite, or what pyiceberg does first, which deletes all."""
    operation, summary = operation_of(snapshot), summary_of(snapshot)
    added, total = summary.get("added-data-files"), summary.get("total-data-files")
    if operation == Operation.OVERWRITE:
        return added is not None and added == total
    return operation == Operation.DELETE and total == "0"


def _may_bring_rows(snapshot: Snapshot) -> bool:
    operation, added = operation_of(snapshot), summary_of(snapshot).get("added-data-files")
    is_empty = operation == Operation.APPEND and added in (None, "0")
    return operation != Operation.REPLACE and not is_empty


@contextmanager
def _failures_of(table: str) -> Iterator[None]:
    """Raise as an error of ours what a catalog and its libraries fail with, each in its own way."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except Exception as error:
        cure = (
            "correct the name of the table, or catalog= (--catalog NAME=VALUE), of which a SQL "
            "catalog needs the name, too: name=lake"
        )
        raise UnreadableTableError.of(table, error, cure) from error
