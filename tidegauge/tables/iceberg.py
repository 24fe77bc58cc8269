"""The snapshots of an Iceberg table, read from its metadata without its files."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Operation, Snapshot

from tidegauge.tables.errors import InvalidNoteError, UnreadableTableError
from tidegauge.tables.history import Commit, covered
from tidegauge.tables.notes import Note

_LEAST_FORMAT = 2
"""Snapshots of format 1 have no sequence numbers."""
_FIRST = 1
"""The sequence number of a table's first snapshot; 0 if that was of format 1."""


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
        try:
            loaded = load_catalog(properties.pop("name", "tidegauge"), **properties)
            self._table = loaded.load_table(name)
        except NoSuchTableError as error:
            raise UnreadableTableError(name, str(error)) from error
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
        try:
            self._table = self._table.catalog.load_table(self.name)
        except NoSuchTableError as error:
            raise UnreadableTableError(self.name, str(error)) from error

    def newest_first(self) -> Iterator[Commit]:
        """List the snapshots that are kept, from the current one back to the first."""
        taken_back = _taken_back(self._table.metadata)
        for snapshot in self._ancestors():
            try:
                yield read_snapshot(snapshot, ends_notes=snapshot.snapshot_id in taken_back)
            except ValueError as error:
                version = snapshot.sequence_number or 0
                raise InvalidNoteError(self.name, version, str(error)) from None

    def covered(self, version: int) -> Iterator[Commit]:
        """List, newest first, the commits that are covered where a version is."""
        return covered(self.newest_first(), version)

    def committed(self, query: str) -> int | None:
        """Find the newest batch of a query among the snapshots that are kept; None if none."""
        for snapshot in self._ancestors():
            found = Note.from_summary(_told(snapshot))
            if found is not None and found.query == query:
                return found.batch
        return None

    def _ancestors(self) -> Iterator[Snapshot]:
        """List the current snapshot, and those before it that are kept."""
        metadata = self._table.metadata
        snapshot = metadata.current_snapshot()
        while snapshot is not None:
            yield snapshot
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else metadata.snapshot_by_id(parent)

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Whether a snapshot is one of this table's."""
        return self._table.metadata.snapshot_by_id(snapshot_id) is not None

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
        metadata = self._table.metadata
        snapshot = metadata.snapshot_by_id(snapshot_id)
        if snapshot is None:
            return None
        told = {} if snapshot.summary is None else snapshot.summary.additional_properties
        files = int(told.get("total-data-files" if all_files else "added-data-files", "0"))
        if position >= files:
            return snapshot.sequence_number
        parent = snapshot.parent_snapshot_id
        before = None if all_files or parent is None else metadata.snapshot_by_id(parent)
        return None if before is None else before.sequence_number


def _told(snapshot: Snapshot) -> dict[str, str]:
    return {} if snapshot.summary is None else dict(snapshot.summary.additional_properties)


def read_snapshot(snapshot: Snapshot, *, ends_notes: bool) -> Commit:
    """Read what the summary of a snapshot says of rows and of time.

    The note of one to which the table was taken back holds no more: readers saw later ones.

    Raises
    ------
    ValueError
        If its note is none.
    """
    summary = snapshot.summary
    told = _told(snapshot)
    operation = None if summary is None else summary.operation
    is_append = operation == Operation.APPEND
    added, total = told.get("added-data-files"), told.get("total-data-files")
    # An overwrite that keeps no file, or what pyiceberg does first: it deletes all of them.
    replaces_all = (
        operation == Operation.OVERWRITE and added is not None and added == total
    ) or (operation == Operation.DELETE and total == "0")
    return Commit(
        version=snapshot.sequence_number or 0,
        note=None if ends_notes else Note.from_summary(told),
        ends_notes=ends_notes or replaces_all,
        has_rows=operation != Operation.REPLACE and not (is_append and added in (None, "0")),
        at=snapshot.timestamp_ms,
        # pyiceberg expires a snapshot, and then forgets that it was the parent of the next.
        is_first=snapshot.parent_snapshot_id is None
        and (snapshot.sequence_number or 0) <= _FIRST,
    )


def _taken_back(metadata: TableMetadata) -> set[int]:
    """Find the snapshots that somebody rolled the table back to, or replaced it with."""
    log = [entry.snapshot_id for entry in metadata.snapshot_log]
    found: set[int] = set()
    for before, after in pairwise(log):
        snapshot = metadata.snapshot_by_id(after)
        if snapshot is None or snapshot.parent_snapshot_id != before:
            found.add(after)
    return found
