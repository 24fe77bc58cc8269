"""Ticks beside a streaming source of a table: how far that was planned. All of it is pure.

What covers what is a fact about the offsets of Spark's sources for Delta and Iceberg.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol, Self

from spark_source.checkpoints.ticks import Offset
from spark_source.errors import UnfollowedTableError

_DELTA_OFFSETS = 1, 3
_OF_DELTA = {"sourceVersion", "reservoirId", "reservoirVersion"}
_OF_ICEBERG = {"snapshot_id", "position", "scan_all_files"}
_NO_SNAPSHOT = -1


@dataclass(frozen=True, slots=True)
class TableTick(Offset):
    """Where a source of ticks beside a table is.

    Attributes
    ----------
    table
        As it was given.
    table_id
        Of the table; one that was made again cannot be followed on.
    marks_from
        ``commits``, or the id of the stream whose marks are taken.
    """

    table: str
    table_id: str
    marks_from: str

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read it back; more may be stored with it, for people, which is not read."""
        return cls(**{name: stored[name] for name in _FIELDS})


_FIELDS = {one.name for one in fields(TableTick)}


class Snapshots(Protocol):
    """What an Iceberg table knows of its snapshots, by their ids."""

    def has_snapshot(self, snapshot_id: int) -> bool:
        """Whether it is one of this table."""

    def covered_version(
        self, snapshot_id: int, position: int, *, all_files: bool
    ) -> int | None:
        """Find the newest version that an offset covers; None if nothing."""


def delta_version(table: str, table_id: str, ends: Sequence[Any]) -> int | None:
    """Find the newest version that all sources of a Delta table were planned to read; None if none.

    Raises
    ------
    UnfollowedTableError
        If no source reads the table, or an offset is of a version that is not known.
    """
    read = [end for end in ends if _is_of_delta(end) and end["reservoirId"] == table_id]
    for end in read:
        if end["sourceVersion"] not in _DELTA_OFFSETS:
            problem = f"offsets of sourceVersion {end['sourceVersion']} are not known"
            raise UnfollowedTableError(table, f"{problem}; update Tidegauge")
    if not read:
        _check_planned(table, ends)
        return None
    covered = [
        None if end["isStartingVersion"] else end["reservoirVersion"] - 1 for end in read
    ]
    known = [version for version in covered if version is not None]
    return min(known) if len(known) == len(covered) else None


def iceberg_version(
    table: str, table_id: str, ends: Sequence[Any], snapshots: Snapshots
) -> int | None:
    """Find the newest version that the source of an Iceberg table was planned to read.

    An offset names no table: it is of the one that knows its snapshot.

    Raises
    ------
    UnfollowedTableError
        If no source reads the table, or more sources than ticks follow it.
    """
    read = [end for end in ends if _is_of_iceberg(end)]
    if any(end["snapshot_id"] == _NO_SNAPSHOT for end in read):
        return None
    own = [end for end in read if snapshots.has_snapshot(end["snapshot_id"])]
    if not own:
        _check_planned(table, ends)
        return None
    ticks = sum(_is_tick(end) and end["table_id"] == table_id for end in ends)
    if ticks and ticks != len(own):
        problem = f"{len(own)} sources read it, and {ticks} follow it; follow() each of them"
        raise UnfollowedTableError(table, problem)
    covered = [
        snapshots.covered_version(
            end["snapshot_id"], end["position"], all_files=end["scan_all_files"]
        )
        for end in own
    ]
    known = [version for version in covered if version is not None]
    return min(known) if len(known) == len(covered) else None


def knows_snapshots(ends: Sequence[Any], snapshots: Snapshots) -> bool:
    """Whether the offsets of all sources of Iceberg tables are of snapshots that one table knows."""
    read = [end["snapshot_id"] for end in ends if _is_of_iceberg(end)]
    return all(one == _NO_SNAPSHOT or snapshots.has_snapshot(one) for one in read)


def without_followed_tables(ends: Sequence[Any]) -> list[Any]:
    """Leave out the ends of sources of tables of whose rows a source of ticks gives the bound.

    An offset of Iceberg names no table, so there they are left out if there are as many as ticks:
    each tick has counted the sources of its table.
    """
    ticks = [end for end in ends if _is_tick(end)]
    of_delta = [end["reservoirId"] for end in ends if _is_of_delta(end)]
    followed = {tick["table_id"] for tick in ticks}
    of_iceberg = sum(map(_is_of_iceberg, ends))
    is_counted = of_iceberg == sum(tick["table_id"] not in of_delta for tick in ticks)
    return [
        end
        for end in ends
        if not (_is_of_delta(end) and end["reservoirId"] in followed)
        and not (_is_of_iceberg(end) and is_counted)
    ]


def _check_planned(table: str, ends: Sequence[Any]) -> None:
    """Raise `UnfollowedTableError` unless a source that was not planned yet may be the one."""
    if any(end is None or end == {} for end in ends):
        return
    found = Counter(_kinds(ends))
    kinds = ", ".join(f"{number} of {kind}" for kind, number in found.items()) or "none"
    problem = f"no source of the query reads it; of tables it has {kinds}. Correct table="
    raise UnfollowedTableError(table, problem)


def _kinds(ends: Sequence[Any]) -> Iterator[str]:
    for end in ends:
        if _is_of_delta(end):
            yield "Delta"
        elif _is_of_iceberg(end):
            yield "Iceberg"


def _is_tick(end: Any) -> bool:  # noqa: ANN401 (of any source)
    return isinstance(end, dict) and end.keys() >= _FIELDS


def _is_of_delta(end: Any) -> bool:  # noqa: ANN401 (of any source)
    return isinstance(end, dict) and end.keys() >= _OF_DELTA


def _is_of_iceberg(end: Any) -> bool:  # noqa: ANN401 (of any source)
    return isinstance(end, dict) and end.keys() >= _OF_ICEBERG
