"""No row that is on time comes behind the bound of a followed table, however it is read."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_source.checkpoints.table_ticks import TableTick, delta_version, iceberg_version
from spark_source.following.followed import TableWatch
from tests.unit.spark_source.test_table_ticks import delta, iceberg
from tidegauge.tables.history import Commit, covered
from tidegauge.tables.notes import Note

_STEP = 10


@dataclass(frozen=True)
class Version:
    """A commit: the times of each of its files, and what it says."""

    files: list[int]
    until: int | None


@dataclass
class Table:
    """Commits in memory, as a log of either format."""

    versions: list[Version]
    name: str = "hourly"
    table_id: str = "a"

    def refresh(self) -> None:
        """Nothing is new."""

    def committed(self, query: str) -> int | None:  # noqa: ARG002 (none is)
        return None

    def newest_first(self) -> Iterator[Commit]:
        for number in reversed(range(len(self.versions))):
            one = self.versions[number]
            note = None if one.until is None else Note(until=one.until, job="hourly")
            yield Commit(number, note, has_rows=bool(one.files), is_first=number == 0)

    def covered(self, version: int) -> Iterator[Commit]:
        return covered(self.newest_first(), version)

    def has_snapshot(self, snapshot_id: int) -> bool:
        return 100 <= snapshot_id < 100 + len(self.versions)

    def covered_version(
        self, snapshot_id: int, position: int, *, all_files: bool
    ) -> int | None:
        assert not all_files
        version = snapshot_id - 100
        if position >= len(self.versions[version].files):
            return version
        return version - 1 if version else None


@st.composite
def histories(draw: st.DrawFn) -> list[Version]:
    """Make commits whose notes are kept: no later file has a time below an earlier note."""
    versions, promised = list[Version](), 0
    for number in range(draw(st.integers(1, 12))):
        files = draw(st.lists(st.integers(0, 30), max_size=3))
        until = draw(st.none() | st.integers(0, _STEP))
        versions.append(Version([promised + one for one in files], None))
        if until is not None:
            promised = max(promised, number * _STEP // 2 + until)
            versions[-1] = Version(versions[-1].files, promised)
    return versions


Covers: TypeAlias = Callable[[Table, int, int], int | None]
"""Finds what is covered where so many files of a version are read, after all those before."""


def _of_delta(table: Table, version: int, read: int) -> int | None:
    return delta_version(table.name, table.table_id, [delta(version, index=read - 1)])


def _of_iceberg(table: Table, version: int, read: int) -> int | None:
    return iceberg_version(table.name, table.table_id, [iceberg(100 + version, read)], table)


def _check(versions: list[Version], version: int, read: int, covers: Covers) -> None:
    table = Table(versions)
    watch = TableWatch(table, TableTick(table.name, table.table_id, "commits"), None)
    found = covers(table, version, read)
    bound = None if found is None else watch.passed({0: found + 1})
    left = [*versions[version].files[read:]]
    left += [time for one in versions[version + 1 :] for time in one.files]
    assert bound is None or all(time >= bound.lower for time in left), "a row is behind it"


@given(
    versions=histories(),
    at=st.tuples(st.integers(0, 11), st.integers(0, 3)),
    covers=st.sampled_from([_of_delta, _of_iceberg]),
)
def test_no_file_that_is_left_has_a_row_below_the_bound(
    versions: list[Version], at: tuple[int, int], covers: Covers
) -> None:
    version = min(at[0], len(versions) - 1)
    _check(versions, version, min(at[1], len(versions[version].files)), covers)


@pytest.mark.parametrize("covers", [_of_delta, _of_iceberg])
def test_an_offset_that_covers_one_version_too_many_is_found(covers: Covers) -> None:
    versions = [Version([5, 3], 10), Version([12, 14], 20)]

    def one_more(table: Table, version: int, read: int) -> int | None:
        found = covers(table, version, read)
        return None if found is None else found + 1

    _check(versions, 1, 1, covers)
    with pytest.raises(AssertionError, match="a row is behind it"):
        _check(versions, 1, 1, one_more)
