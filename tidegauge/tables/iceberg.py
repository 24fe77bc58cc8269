"""The snapshots of an Iceberg table, read from its metadata without its files."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise

from pyiceberg.catalog import load_catalog
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
        properties = dict(catalog)
        with _told(name):
            loaded = load_catalog(properties.pop("name", "tidegauge"), **properties)
            self._take(loaded.load_table(name))
        found = self._table.metadata.format_version
        if found < _LEAST_FORMAT:
            cure = "upgrade it: ALTER TABLE … SET TBLPROPERTIES ('format-version' = '2')"
            raise UnreadableTableError(
                name, f"is of format {found}, not {_LEAST_FORMAT}; {cure}"
            )

    @property
    def table_id(self) -> str:
        """The table's UUID."""
        return str(self._table.metadata.table_uuid)

    def refresh(self) -> None:
        """Read the newest metadata."""
        with _told(self.name):
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
            note = Note.from_summary(_summary_of(snapshot))
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
        told = _summary_of(snapshot)
        files = int(told.get("total-data-files" if all_files else "added-data-files", "0"))
        if position >= files:
            return snapshot.sequence_number
        before = None if all_files else self._history.find(snapshot.parent_snapshot_id)
        return None if before is None else before.sequence_number

    def _take(self, table: Table) -> None:
        self._table, self._history = table, SnapshotHistory(table.metadata)


class SnapshotHistory:
    """The snapshots that the metadata of a table has, in the order of branch ``main``."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._by_id = {one.snapshot_id: one for one in metadata.snapshots}
        self._versions = {_version_of(one) for one in metadata.snapshots}
        self._current = metadata.current_snapshot()
        log = [self.find(entry.snapshot_id) for entry in metadata.snapshot_log]
        self._rolled_back_to, self._begun_elsewhere = set[int](), set[int]()
        for before, after in pairwise(one for one in log if one is not None):
            if _version_of(after) < _version_of(before):
                self._rolled_back_to.add(after.snapshot_id)
            elif not self._may_descend(after, before):
                self._begun_elsewhere.add(after.snapshot_id)

    def find(self, snapshot_id: int | None) -> Snapshot | None:
        """Find a snapshot by its id."""
        return None if snapshot_id is None else self._by_id.get(snapshot_id)

    def ancestors(self) -> Iterator[Snapshot]:
        """List the snapshots from the current one back, as far as they are kept."""
        snapshot = self._current
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
            version, told = _version_of(snapshot), _summary_of(snapshot)
            # What came behind was taken back, and the note of this one rests on it.
            is_back = snapshot.snapshot_id in self._rolled_back_to
            try:
                note = None if is_back else Note.from_summary(told)
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
        if snapshot.snapshot_id in self._begun_elsewhere or _replaces_all(snapshot):
            return True
        # pyiceberg forgets a parent that expires. One that is kept was left: CREATE OR REPLACE.
        return (
            snapshot.parent_snapshot_id is None and _version_of(snapshot) - 1 in self._versions
        )

    def _may_descend(self, snapshot: Snapshot, other: Snapshot) -> bool:
        """Whether one is an ancestor of another, or may be: what is between them expired."""
        at: Snapshot | None = snapshot
        while at is not None and _version_of(at) > _version_of(other):
            at = self.find(at.parent_snapshot_id)
        return at is None or at.snapshot_id == other.snapshot_id


def _version_of(snapshot: Snapshot) -> int:
    return snapshot.sequence_number or 0


def _summary_of(snapshot: Snapshot) -> dict[str, str]:
    summary = snapshot.summary
    return {} if summary is None else dict(summary.additional_properties)


def _operation_of(snapshot: Snapshot) -> Operation | None:
    return None if snapshot.summary is None else snapshot.summary.operation


def _replaces_all(snapshot: Snapshot) -> bool:
    """Whether it keeps no file: an overwrite, or what pyiceberg does first, which deletes all."""
    operation, told = _operation_of(snapshot), _summary_of(snapshot)
    added, total = told.get("added-data-files"), told.get("total-data-files")
    if operation == Operation.OVERWRITE:
        return added is not None and added == total
    return operation == Operation.DELETE and total == "0"


def _may_bring_rows(snapshot: Snapshot) -> bool:
    operation, added = _operation_of(snapshot), _summary_of(snapshot).get("added-data-files")
    is_empty = operation == Operation.APPEND and added in (None, "0")
    return operation != Operation.REPLACE and not is_empty


@contextmanager
def _told(table: str) -> Iterator[None]:
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
