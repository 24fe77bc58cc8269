"""How far a query was planned to read a table, by the offsets of Spark's own sources."""

from collections.abc import Sequence
from typing import Any

import pytest

from spark_source.checkpoints import checkpoint
from spark_source.checkpoints.checkpoint import LoggedBatch
from spark_source.checkpoints.table_ticks import TableTick, delta_version, iceberg_version
from spark_source.errors import GuessedWatermarkError, UnfollowedTableError

DELTA_TICK = TableTick("/lake/a", "a", "commits", bound=500, revision=3, run="r").to_json()
ICEBERG_TICK = TableTick("lake.a", "ice", "commits", bound=500, revision=3, run="r").to_json()


def delta(version: int, table: str = "a", **more: Any) -> dict[str, Any]:
    return {
        "sourceVersion": 1,
        "reservoirId": table,
        "reservoirVersion": version,
        "index": -1,
        "isStartingVersion": False,
        **more,
    }


def iceberg(snapshot: int, position: int = 0, *, all_files: bool = False) -> dict[str, Any]:
    return {
        "version": 1,
        "snapshot_id": snapshot,
        "position": position,
        "scan_all_files": all_files,
    }


class Snapshots:
    """Knows snapshots 100, 101 … of versions 1, 2 …, each with two new files."""

    def has_snapshot(self, snapshot_id: int) -> bool:
        return 100 <= snapshot_id < 110

    def covered_version(
        self, snapshot_id: int, position: int, *, all_files: bool
    ) -> int | None:
        version = snapshot_id - 99
        if position >= (2 * version if all_files else 2):
            return version
        return None if all_files or version == 1 else version - 1


@pytest.mark.parametrize("index", [-1, -19, -20, -100, 0, 7])
def test_a_delta_offset_covers_the_versions_below_it(index: int) -> None:
    assert delta_version("t", "a", [DELTA_TICK, delta(5, index=index)]) == 4


def test_the_files_of_a_first_snapshot_cover_nothing() -> None:
    assert delta_version("t", "a", [delta(5, isStartingVersion=True)]) is None


def test_a_table_that_is_read_twice_is_covered_as_far_as_both_are() -> None:
    assert delta_version("t", "a", [delta(5), delta(3)]) == 2


def test_an_unknown_version_of_offsets_is_told() -> None:
    with pytest.raises(UnfollowedTableError, match="sourceVersion 9 are not known"):
        delta_version("t", "a", [delta(5, sourceVersion=9)])


def test_a_source_that_was_not_planned_yet_may_be_the_one() -> None:
    assert delta_version("t", "a", [DELTA_TICK, None]) is None
    with pytest.raises(UnfollowedTableError, match=r"it has 1 of Delta\. Correct table="):
        delta_version("t", "a", [DELTA_TICK, delta(5, table="b")])


@pytest.mark.parametrize(
    ("end", "version"),
    [
        (iceberg(102, 2), 3),
        (iceberg(102, 1), 2),
        (iceberg(100, 1), None),
        (iceberg(102, 6, all_files=True), 3),
        (iceberg(102, 5, all_files=True), None),
        (iceberg(-1), None),
    ],
)
def test_an_iceberg_offset_covers_what_its_files_say(
    end: dict[str, Any], version: int | None
) -> None:
    assert iceberg_version("t", "ice", [ICEBERG_TICK, end], Snapshots()) == version


def test_an_iceberg_offset_is_of_the_table_that_knows_its_snapshot() -> None:
    ends = [ICEBERG_TICK, iceberg(102, 2), iceberg(900, 2)]
    assert iceberg_version("t", "ice", ends, Snapshots()) == 3
    with pytest.raises(UnfollowedTableError, match="2 sources read it, and 1 follow it"):
        iceberg_version("t", "ice", [*ends, iceberg(101, 2)], Snapshots())


def promised(*ends: Any) -> int | None:
    return LoggedBatch(is_stateful=False, watermark=0, ends=ends).promise(0, strictly=True).time


def test_a_query_over_followed_tables_promises_their_bound() -> None:
    assert promised(DELTA_TICK, delta(5)) == 500
    assert promised(ICEBERG_TICK, iceberg(102, 2)) == 500
    assert promised(ICEBERG_TICK, iceberg(102, 2), DELTA_TICK, delta(5)) == 500


_OF_ANOTHER = [
    (DELTA_TICK, delta(5), delta(5, table="b")),
    (DELTA_TICK, delta(5, table="b")),
    (ICEBERG_TICK, iceberg(102, 2), iceberg(900, 2)),
    (DELTA_TICK, delta(5), iceberg(900, 2)),
]


@pytest.mark.parametrize("ends", [(delta(5),), *_OF_ANOTHER, ({"logOffset": 4},)])
def test_one_tick_is_no_promise_about_another_table(ends: tuple[Any, ...]) -> None:
    _refuses(ends)


def _refuses(ends: tuple[Any, ...]) -> None:
    with pytest.raises(GuessedWatermarkError, match="neither a stream of ours nor followed"):
        promised(*ends)


def test_a_promise_about_any_table_once_there_is_a_tick_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exempts_any(ends: Sequence[Any]) -> list[Any]:
        of_tables = {"reservoirId", "snapshot_id"}
        return [end for end in ends if end.keys().isdisjoint(of_tables)]

    monkeypatch.setattr(checkpoint, "without_followed_tables", exempts_any)
    for ends in _OF_ANOTHER:
        with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
            _refuses(ends)
