"""What the commits of a Delta table changed, file by file."""

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tidegauge.intervals import GoneError
from tidegauge.tables.columns import extent_of, read_times, to_ms
from tidegauge.tables.delta import DeltaLog
from tidegauge.tables.errors import UnreadableTableError
from tidegauge.tables.history import Commit
from tidegauge.tables.work import Change, File


class DeltaFiles:
    """The files of a Delta table.

    Parameters
    ----------
    uri, storage_options
        As `DeltaLog` takes them.
    """

    def __init__(self, uri: str, storage_options: Mapping[str, str] | None) -> None:
        self.log = DeltaLog(uri, storage_options)
        self._before: dict[str, File] | None = None
        self._added: dict[str, File] = {}
        self.kind = ""
        self._column = list[str]()
        self._behind = list[Commit]()

    def read_behind(self, since: int) -> int:
        """Read the commits behind a version, and return how many they are.

        Raises
        ------
        GoneError
            If they are not all kept.
        """
        self.log.keep_files(above=since)
        commits = takewhile(lambda commit: commit.version > since, self.log.newest_first())
        self._behind = [*commits][::-1]
        if len(self._behind) != self.log.newest - since:
            problem = f"does not keep the commits behind version {since} any more"
            raise GoneError(self.log.name, problem)
        return len(self._behind)

    def choose(self, column: str) -> str:
        """Take a column, which may be a field such as ``window.start``, as event time.

        Delta has no two names that differ in case alone; return the one that the table has.

        Raises
        ------
        ValueError
            If there is no such column.
        """
        fields = json.loads(self.log.table_at().schema().to_json())["fields"]
        kind: Any = None
        names = list[str]()
        for part in column.split("."):
            same = (field for field in fields if field["name"].lower() == part.lower())
            field = next(same, None)
            if field is None:
                msg = f"event_time={column!r} is no column of {self.log.name}"
                raise ValueError(msg)
            # Under column mapping statistics and files have names of their own.
            physical = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
            self._column.append(physical)
            names.append(field["name"])
            kind = field["type"]
            fields = kind.get("fields", []) if isinstance(kind, dict) else []
        self.kind = kind if isinstance(kind, str) else kind["type"]
        return ".".join(names)

    def changes(self) -> list[Change]:
        """List what the commits behind the cursor changed, oldest first."""
        return [self._change(commit) for commit in self._behind]

    def times(self, file: File, below: int) -> list[int]:
        """Read the event times of a file that are below one, ms.

        Raises
        ------
        GoneError
            If the file was vacuumed.
        """
        if self._is_partition(file.data):
            return [] if file.low is None or file.low >= below else [file.low] * file.rows
        try:
            with self.log.files.open_input_file(unquote(file.path)) as data:
                return read_times(data, self._column, below)
        except FileNotFoundError:
            raise GoneError(self.log.name, f"keeps {file.path} no more") from None
        except OSError as error:
            raise UnreadableTableError.of(self.log.name, error) from error

    def extent(self, version: int) -> tuple[int, int] | None:
        """Find the least and the greatest event time at a version, ms; None without one."""
        return extent_of(self, self._at(version).values())

    def _change(self, commit: Commit) -> Change:
        actions = self.log.files_of(commit.version)
        adds = [action["add"] for action in actions if "add" in action]
        files = {add["path"]: self._file(add) for add in adds}
        removes = [action["remove"] for action in actions if "remove" in action]
        removed = [
            self._find(remove["path"], commit.version - 1)
            for remove in removes
            if remove.get("dataChange", True)
        ]
        # What a compaction added, a later commit may remove.
        self._added |= files
        added = [files[add["path"]] for add in adds if add.get("dataChange", True)]
        return Change(added, removed, commit)

    def _find(self, path: str, version: int) -> File:
        """Find a removed file where it was added: who removes one repeats no statistics."""
        if path not in self._added and self._before is None:
            try:
                self._before = self._at(version)
            except UnreadableTableError:  # the log that would say it was cleaned: the file does
                self._before = {}
        return self._added.get(path) or (self._before or {}).get(path) or File(path, 1)

    def _file(self, added: Mapping[str, Any]) -> File:
        stats = json.loads(added.get("stats") or "{}")
        values = added.get("partitionValues") or {}
        if self._is_partition(values):
            low = high = values[self._column[0]]
        else:
            low, high = stats.get("minValues"), stats.get("maxValues")
            for part in self._column:
                low, high = (low or {}).get(part), (high or {}).get(part)
        rows = stats.get("numRecords", 1)
        return File(added["path"], rows, to_ms(low), to_ms(high), values)

    def _is_partition(self, values: object) -> bool:
        return isinstance(values, Mapping) and self._column[0] in values

    def _at(self, version: int) -> dict[str, File]:
        table = self.log.table_at(version)
        name = ".".join(self._column)
        files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
        return {
            file["path"]: File(
                file["path"],
                file.get("num_records") or 1,
                to_ms(file.get(f"partition.{name}", file.get(f"min.{name}"))),
                to_ms(file.get(f"partition.{name}", file.get(f"max.{name}"))),
                {name: None} if f"partition.{name}" in file else None,
            )
            for file in files
        }
