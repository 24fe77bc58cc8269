"""The commits of a Delta table, read from its log without its files."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from tidegauge.tables.errors import InvalidNoteError, UnreadableTableError
from tidegauge.tables.history import Commit
from tidegauge.tables.notes import Note

_ENDING = ("RESTORE", "CREATE OR REPLACE TABLE", "REPLACE TABLE", "CLONE")
"""Operations that take back versions, or make the table again; their names may go on."""


class DeltaLog:
    """The log of a Delta table; it opens the table once, and then reads new commits alone.

    Parameters
    ----------
    uri
        As ``deltalake.DeltaTable`` takes it.
    storage_options
        The same.

    Raises
    ------
    UnreadableTableError
        If there is no table, or it cannot be reached.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.name = uri
        self._storage = dict(storage_options or {})
        self._known: dict[int, Commit] = {}
        self._seen: tuple[int, int | None] | None = None
        self._files_of: dict[int, list[dict[str, Any]]] = {}
        self._kept_above: int | None = None
        self._open()

    @property
    def newest(self) -> int:
        """The newest version that is known."""
        return self._newest

    @property
    def files(self) -> fs.PyFileSystem:
        """The folder of the table."""
        return self._files

    def keep_files(self, *, above: int) -> None:
        """Keep what commits above a version do to files, as they are read, for `files_of`."""
        self._kept_above = above

    def files_of(self, version: int) -> list[dict[str, Any]]:
        """Give the actions of a commit that add and remove files."""
        return self._files_of[version]

    def table_at(self, version: int | None = None) -> DeltaTable:
        """Open the table at a version; without one, as it was opened first.

        Raises
        ------
        UnreadableTableError
            If the log does not say any more what it had.
        """
        if version in (None, self._table.version()):
            return self._table
        try:
            return DeltaTable(self.name, version=version, storage_options=self._storage)
        except DeltaError as error:
            raise UnreadableTableError.of(self.name, error) from error

    def refresh(self) -> None:
        """Find new commits, and see whether the table was made again."""
        # A table made again may have as many versions already, and more.
        if self._stamp(self._newest) != self._seen:
            self._open()
        while self._stamp(self._newest + 1) is not None:
            self._newest += 1
            self._seen = self._stamp(self._newest)
            # A commit that makes the table again names its new id.
            self._read(self._newest)

    def newest_first(self) -> Iterator[Commit]:
        """List the commits whose entry in the log is kept."""
        return self._from(self._newest)

    def covered(self, version: int) -> Iterator[Commit]:
        """List, newest first, the commits that are covered where a version is."""
        top = min(version, self._newest)
        while top < self._newest and (above := self._read(top + 1)) is not None:
            if above.has_rows:
                break
            top += 1
        return self._from(top)

    def committed(self, query: str) -> int | None:
        """Return the newest batch of a query that the table had when it was opened; None if none."""
        return self._table.transaction_version(query)

    def _from(self, version: int) -> Iterator[Commit]:
        while version >= 0 and (commit := self._read(version)) is not None:
            yield commit
            version -= 1

    def _open(self) -> None:
        try:
            table = DeltaTable(self.name, storage_options=self._storage)
            self.table_id = str(table.metadata().id)
            self._newest = table.version()
            self._table = table
            self._files = fs.PyFileSystem(DeltaStorageHandler(self.name, self._storage))
        except Exception as error:  # the library raises bare ones, too
            cure = _cure(self.name, self._storage)
            raise UnreadableTableError.of(self.name, error, cure) from error
        self._known.clear()
        self._seen = self._stamp(self._newest)

    def _stamp(self, version: int) -> tuple[int, int | None] | None:
        """Return the size and the time of an entry of the log; None if there is none."""
        try:
            info = self._files.get_file_info(_entry(version))
        except OSError as error:
            raise UnreadableTableError.of(self.name, error) from error
        return None if info.type == fs.FileType.NotFound else (info.size, info.mtime_ns)

    def _actions(self, version: int) -> list[dict[str, Any]] | None:
        """Request an entry of the log; None if it was cleaned away."""
        try:
            with self._files.open_input_stream(_entry(version)) as file:
                text: bytes = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise UnreadableTableError.of(self.name, error) from error
        return [json.loads(line) for line in text.splitlines() if line.strip()]

    def _read(self, version: int) -> Commit | None:
        if version not in self._known:
            actions = self._actions(version)
            if actions is None:
                return None
            for action in actions:
                if "metaData" in action and version == self._newest:
                    self.table_id = action["metaData"]["id"]
            if self._kept_above is not None and version > self._kept_above:
                self._files_of[version] = [
                    action for action in actions if "add" in action or "remove" in action
                ]
            try:
                self._known[version] = read_commit(version, actions)
            except ValueError as error:
                raise InvalidNoteError(self.name, version, str(error)) from None
        return self._known[version]


def _cure(uri: str, storage: Mapping[str, str]) -> str:
    """Say what to do where no table was found at an address."""
    scheme, is_address, _ = uri.partition("://")
    if is_address and scheme in ("http", "https"):
        return "give its address in the object store, such as s3://lake/hourly"
    if is_address and scheme != "file":
        given = "correct" if storage else "give"
        return f"correct the address, or {given} storage_options= (--storage-option NAME=VALUE)"
    return "correct the path, or for an Iceberg table give catalog= (--catalog NAME=VALUE)"


def read_commit(version: int, actions: list[dict[str, Any]]) -> Commit:
    """Read what the actions of a commit say of rows and of time.

    Raises
    ------
    ValueError
        If its note is none.
    """
    commit_info: dict[str, Any] = next(
        (action["commitInfo"] for action in actions if "commitInfo" in action), {}
    )
    return Commit(
        version=version,
        note=Note.from_metadata(commit_info.get("userMetadata")),
        ends_notes=_takes_back(commit_info) and not _moves_rows(actions),
        has_rows=any(map(_brings_rows, actions)),
        at=commit_info.get("timestamp", 0),
        is_first=version == 0,
    )


def _takes_back(commit_info: Mapping[str, Any]) -> bool:
    """Whether a commit may replace what the table had: all of it, or by what it had before."""
    operation: str = commit_info.get("operation", "")
    parameters = commit_info.get("operationParameters") or {}
    overwrites = parameters.get("mode") == "Overwrite" and not _is_partial(parameters)
    # So does each batch of a query in complete mode.
    overwrites = overwrites or parameters.get("outputMode") == "Complete"
    return operation.startswith(_ENDING) or overwrites


def _is_partial(parameters: Mapping[str, Any]) -> bool:
    """Whether an overwrite keeps what a predicate, or the partitions written, leave alone."""
    if parameters.get("predicate") not in (None, "", "[]"):
        return True
    return parameters.get("isDynamicPartitionOverwrite") in (True, "true")


def _moves_rows(actions: list[dict[str, Any]]) -> bool:
    """Whether all files of a commit have rows that were there before, as in a compaction by hand."""
    files = [action.get("add") or action.get("remove") for action in actions]
    changes = [file.get("dataChange", True) for file in files if file is not None]
    return bool(changes) and not any(changes)


def _brings_rows(action: Mapping[str, Any]) -> bool:
    """Whether an action has rows that a stream reads; a number that is not noted may be any."""
    added = action.get("add") or action.get("cdc")
    if added is None or not added.get("dataChange", True):
        return False
    stats: dict[str, Any] = json.loads(added.get("stats") or "{}")
    return bool(stats.get("numRecords") != 0)


def _entry(version: int) -> str:
    return f"_delta_log/{version:020d}.json"
