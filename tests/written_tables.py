"""Real tables of both formats for work lists, written by delta-rs and pyiceberg."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import Catalog, load_catalog

from tidegauge.tables import WorkList, intervals, note

HOUR = 3_600_000
BEGIN = 1_767_571_200_000
"""2026-01-05T00:00:00Z."""
_TIME = pa.timestamp("us", "UTC")


def rows(
    numbers: Sequence[int], times: Sequence[int | None], kind: pa.DataType = _TIME
) -> pa.Table:
    """Make rows with a time, the same in a field, and a number."""
    micros = [None if time is None else time * 1_000 for time in times]
    column = pa.array(micros, pa.int64()).cast(pa.timestamp("us")).cast(kind)
    window = pa.StructArray.from_arrays([column], ["start"])
    return pa.table({"t": column, "n": pa.array(numbers, pa.int64()), "window": window})


class Written:
    """A table to which rows are appended, as each format does."""

    kind: str
    name: str
    how: dict[str, Any]

    def __init__(self) -> None:
        self._numbers = count()

    def append(
        self, *times: int | None, until: int | None = None, column: str | None = None
    ) -> list[int]:
        """Commit rows, perhaps with a note; return their numbers."""
        numbers = [next(self._numbers) for _ in times]
        said = {}
        if until is not None:
            said = note(until, job="j", format=self.kind, column=column)  # type: ignore[arg-type]
        self.write(rows(numbers, times), said)
        return numbers

    def look(self, since: str | None = None, **how: Any) -> WorkList:
        return intervals(self.name, since=since, **{"event_time": "t", **self.how, **how})

    def write(self, data: pa.Table, said: dict[str, str]) -> None:
        raise NotImplementedError

    def delete(self, numbers: Sequence[int]) -> None:
        raise NotImplementedError

    def files(self, version: int) -> Iterator[str]:
        raise NotImplementedError

    def times(self, version: int) -> list[tuple[int, int]]:
        """List the times of the rows of a version, with their numbers."""
        found = list[tuple[int, int]]()
        for path in self.files(version):
            data = parquet.read_table(path, partitioning=None)
            micros = data["t"].cast(pa.int64()).to_pylist()
            pairs = zip(micros, data["n"].to_pylist(), strict=True)
            found += [(micro // 1_000, n) for micro, n in pairs if micro is not None]
        return sorted(found)


class Delta(Written):
    kind = "delta"

    def __init__(self, folder: Path, **how: Any) -> None:
        super().__init__()
        self.name, self.how, self._how = str(folder / "table"), {}, how

    def write(self, data: pa.Table, said: dict[str, str]) -> None:
        properties = CommitProperties(custom_metadata=said)
        write_deltalake(
            self.name, data, mode="append", commit_properties=properties, **self._how
        )

    def delete(self, numbers: Sequence[int]) -> None:
        self.table.delete(f"n in ({','.join(map(str, numbers))})")

    def files(self, version: int) -> Iterator[str]:
        yield from DeltaTable(self.name, version=version).file_uris()

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(self.name)


class Iceberg(Written):
    kind = "iceberg"

    def __init__(self, folder: Path, **properties: str) -> None:
        super().__init__()
        self.name = "lake.hourly"
        catalog = {
            "name": "lake",
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self.how = {"catalog": catalog}
        named = {key: value for key, value in catalog.items() if key != "name"}
        self.catalog: Catalog = load_catalog("lake", **named)
        self.catalog.create_namespace("lake")
        self.catalog.create_table(self.name, rows([], []).schema, properties=properties)

    def write(self, data: pa.Table, said: dict[str, str]) -> None:
        self.table.append(data, snapshot_properties=said)

    def delete(self, numbers: Sequence[int]) -> None:
        self.table.delete(f"n in ({','.join(map(str, numbers))})")

    def files(self, version: int) -> Iterator[str]:
        for task in self.table.scan(snapshot_id=self._snapshots[version]).plan_files():
            yield task.file.file_path.removeprefix("file://")

    def roll_back(self, version: int) -> None:
        change = self.table.manage_snapshots()
        change.set_current_snapshot(self._snapshots[version]).commit()

    def expire(self, *versions: int) -> None:
        ids = [self._snapshots[version] for version in versions]
        self.table.maintenance.expire_snapshots().by_ids(ids).commit()

    @property
    def table(self) -> Any:
        return self.catalog.load_table(self.name)

    @property
    def _snapshots(self) -> dict[int, int]:
        """The ids of the snapshots by their numbers."""
        return {one.sequence_number: one.snapshot_id for one in self.table.metadata.snapshots}


def cursor_at(version: int, until: int, table_id: str, column: str = "t") -> str:
    """Make the cursor of hours that an earlier call returned."""
    return json.dumps([version, until, table_id, HOUR, None, column])


def utc_text(time: int) -> str:
    """Write a time, ms, in RFC 3339."""
    return datetime.fromtimestamp(time / 1_000, UTC).isoformat()


def utc(year: int, month: int, day: int, hour: int) -> int:
    """Give a time in ms."""
    return round(datetime(year, month, day, hour, tzinfo=UTC).timestamp() * 1_000)
