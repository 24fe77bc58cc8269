"""Until when an Iceberg table is complete, by its snapshots; without Spark."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import _dataframe_to_data_files
from pyiceberg.table.metadata import TableMetadataV2

from tests.written_tables import Iceberg, rows
from tidegauge.tables import TooOldError, UnreadableTableError, complete_until, note, version_at
from tidegauge.tables.history import commit_in_effect, first_complete
from tidegauge.tables.iceberg import IcebergLog, SnapshotHistory

NAME = "lake.hourly"


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Iceberg]:
    lake = Iceberg(tmp_path)
    yield lake
    lake.catalog.close()


def time_of(lake: Iceberg) -> int | None:
    return complete_until(NAME, **lake.how)


def test_each_version_says_its_time_and_the_first_complete_one_is_found(lake: Iceberg) -> None:
    told, reached = (None, 10, None, 20, 20, 30), []
    for until in told:
        lake.append(1, until=until)
        reached.append(time_of(lake))
    assert reached == [None, 10, 10, 20, 20, 30]
    found = [version_at(NAME, time, **lake.how) for time in (10, 11, 20, 21, 30, 31)]
    assert found == [2, 4, 4, 6, 6, None]


def test_a_delete_that_touches_each_file_ends_no_notes_and_an_overwrite_of_all_files_does(
    lake: Iceberg,
) -> None:
    numbers = lake.append(1, 2, 3, until=10)
    lake.delete(numbers[1:2])
    assert time_of(lake) == 10
    table = lake.table
    # As engines do that overwrite in one snapshot.
    with table.transaction() as change, change.update_snapshot().overwrite() as overwrite:
        for task in table.scan().plan_files():
            overwrite.delete_data_file(task.file)
        for file in _dataframe_to_data_files(table.metadata, rows([4], [4]), table.io):
            overwrite.append_data_file(file)
    assert time_of(lake) is None


def test_a_table_made_again_is_another_one(lake: Iceberg) -> None:
    lake.append(1, until=10)
    log = IcebergLog(NAME, lake.how["catalog"])
    former = log.table_id
    lake.catalog.drop_table(NAME)
    lake.catalog.create_table(NAME, rows([], []).schema)
    log.refresh()
    assert log.table_id != former
    assert list(log.newest_first()) == []
    lake.catalog.drop_table(NAME)
    with pytest.raises(UnreadableTableError, match=r"exist: lake\.hourly; correct the name"):
        log.refresh()


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"uri": "sqlite:////nowhere/catalog.db"}, "unable to open database file"),
        ({"type": "rust"}, "'rust' is not a valid CatalogType"),
        ({"name": "other"}, "Table does not exist: lake.hourly; .* name=lake"),
    ],
)
def test_a_wrong_catalog_is_told(lake: Iceberg, wrong: dict[str, str], told: str) -> None:
    with pytest.raises(UnreadableTableError, match=told):
        complete_until(NAME, catalog=lake.how["catalog"] | wrong)


class Model:
    """A table's metadata as engines write it, and what was true at each of its versions."""

    def __init__(self) -> None:
        self.snapshots: dict[int, dict[str, Any]] = {}
        self.log: list[int] = []
        self.lines: dict[int, list[tuple[int, int | None, bool]]] = {}

    def commit(self, until: int | None, *, replaces: bool = False) -> None:
        """Add a version behind the current one, or, as CREATE OR REPLACE does, behind none."""
        version = len(self.lines) + 1
        before = self.log[-1] if self.log and not replaces else None
        if replaces:
            self.log = []
        summary = {"operation": "append", "added-data-files": "1"}
        if until is not None:
            summary |= note(until, job="nightly", format="iceberg")
        self.snapshots[version] = {
            "snapshot-id": version,
            "sequence-number": version,
            "parent-snapshot-id": before,
            "timestamp-ms": version,
            "manifest-list": "none",
            "summary": summary,
        }
        line = [] if before is None else self.lines[before]
        self.lines[version] = [*line, (version, until, False)]
        self.log.append(version)

    def roll_back(self, to: int) -> None:
        if to in self.snapshots and to < self.log[-1]:
            self.log.append(to)
            kept = [one for one in self.lines[to] if one[0] < to]
            self.lines[to] = [*kept, (to, None, True)]

    def expire(self, version: int, *, by_java: bool) -> None:
        """Drop a snapshot, but none that is current or was taken back: that is forgotten with it."""
        is_in_line = any(one == version for one, *_ in self.lines[self.log[-1]])
        if version == self.log[-1] or version not in self.snapshots or not is_in_line:
            return
        del self.snapshots[version]
        if by_java:
            while version in self.log:
                del self.log[: self.log.index(version) + 1]
            return
        self.log = [one for one in self.log if one != version]
        for one in self.snapshots.values():
            if one["parent-snapshot-id"] == version:
                one["parent-snapshot-id"] = None

    def history(self) -> SnapshotHistory:
        stamped = [{"snapshot-id": one, "timestamp-ms": 100} for one in self.log]
        return SnapshotHistory(
            TableMetadataV2.model_validate(
                {
                    "format-version": 2,
                    "table-uuid": str(uuid4()),
                    "location": "file:///none",
                    "last-sequence-number": len(self.lines),
                    "last-updated-ms": 100,
                    "last-column-id": 0,
                    "schemas": [{"type": "struct", "schema-id": 0, "fields": []}],
                    "current-schema-id": 0,
                    "partition-specs": [{"spec-id": 0, "fields": []}],
                    "default-spec-id": 0,
                    "last-partition-id": 999,
                    "sort-orders": [{"order-id": 0, "fields": []}],
                    "default-sort-order-id": 0,
                    "properties": {},
                    "current-snapshot-id": self.log[-1],
                    "snapshots": list(self.snapshots.values()),
                    "snapshot-log": stamped,
                }
            )
        )

    def known(self) -> list[tuple[int, int | None, bool]]:
        """List the versions, oldest first, behind which nothing that is needed has expired."""
        line = self.lines[self.log[-1]]
        gone = [at for at, (version, *_) in enumerate(line) if version not in self.snapshots]
        return line[gone[-1] + 1 :] if gone else line


_STEPS = st.one_of(
    st.tuples(st.just("commit"), st.one_of(st.none(), st.integers(0, 3))),
    st.tuples(st.just("replace"), st.none()),
    st.tuples(st.just("back"), st.integers(1, 12)),
    st.tuples(st.just("expire"), st.integers(1, 12)),
    st.tuples(st.just("forget"), st.integers(1, 12)),
)


@given(steps=st.lists(_STEPS, min_size=1, max_size=12), time=st.integers(0, 20))
def test_what_is_known_of_any_history_is_what_was_noted(
    steps: list[tuple[str, int | None]], time: int
) -> None:
    model, until = Model(), 0
    model.commit(None)
    for kind, value in steps:
        if kind == "commit":
            until += value or 0
            model.commit(None if value is None else until)
        elif kind == "replace":
            model.commit(None, replaces=True)
        elif kind == "back":
            model.roll_back(value or 0)
        else:
            model.expire(value or 0, by_java=kind == "expire")
    known, line = model.known(), model.lines[model.log[-1]]
    ends = [at for at, (*_, is_end) in enumerate(known) if is_end]
    noted = [
        (version, told)
        for version, told, _ in known[max(ends, default=0) :]
        if told is not None
    ]
    commits = list(model.history().commits(NAME))
    found = commit_in_effect(commits)
    assert (found and found.time) == (noted[-1][1] if noted else None)
    complete = [version for version, told in noted if told >= time]
    # A table that was made anew behind a version that expired looks as if that was part of it.
    may_be_cut = line[0][0] > 1 and line[0][0] - 1 not in model.snapshots
    is_cut = not ends and (known != line or may_be_cut)
    if is_cut and complete and complete[0] == noted[0][0]:
        with pytest.raises(TooOldError) as caught:
            first_complete(NAME, time, commits)
        assert caught.value.version == complete[0]
    else:
        first = first_complete(NAME, time, commits)
        assert (first and first.version) == (complete[0] if complete else None)


def test_format_1_has_no_versions(lake: Iceberg) -> None:
    lake.catalog.drop_table(NAME)
    lake.catalog.create_table(NAME, rows([], []).schema, properties={"format-version": "1"})
    with pytest.raises(UnreadableTableError, match="is of format 1, not 2; upgrade it"):
        time_of(lake)
