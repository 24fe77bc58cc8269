"""The work list of a batch job over a table, by what its commits changed. All of it is pure."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tidegauge.event_time import END_OF_TIME
from tidegauge.intervals import CURSOR_CURE, ChangedIntervals, Interval, Tiling
from tidegauge.tables.history import Commit, commit_in_effect

_LONG = 1_000
"""A file with a range of more intervals has an odd row: its rows are read, not its range taken."""


@dataclass(frozen=True, slots=True)
class WorkList:
    """What a batch job has to run.

    Attributes
    ----------
    version
        Read the table at this; None if it has no commit.
    until
        The time up to which it is complete then, ms; None if it says nothing, and nothing is listed.
    new
        Intervals that are complete now, and were not at the cursor.
    again
        Intervals that were complete at the cursor and are, and have changed.
    cursor
        A text; pass it as ``since=`` next time. It stays the former one while ``until`` is None.
    """

    version: int | None
    until: int | None
    new: list[Interval] = field(default_factory=list)
    again: list[Interval] = field(default_factory=list)
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a call ended, and what it listed.

    Attributes
    ----------
    version, until
        At which version, and complete until when, ms.
    table_id, tiling, column
        Of which table, which intervals, and by which column.
    """

    version: int
    until: int
    table_id: str
    tiling: Tiling
    column: str

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read what `to_text` wrote; ``ValueError`` for anything else."""
        try:
            version, until, table_id, length, zone, column = json.loads(text)
            tiling = Tiling.parse(f"{length}ms", zone)
            return cls(int(version), int(until), str(table_id), tiling, str(column))
        except (TypeError, ValueError):
            msg = f"since={text[:80]!r} is no cursor of a table; {CURSOR_CURE}"
            raise ValueError(msg) from None

    def to_text(self) -> str:
        """Write it as a text that any scheduler can keep."""
        of = self.table_id, self.tiling.length, self.tiling.zone_name, self.column
        return json.dumps([self.version, self.until, *of])


@dataclass(frozen=True, slots=True)
class File:
    """A data file as a commit names it.

    Attributes
    ----------
    path
        Where it is.
    rows
        How many it has; 0 in a file of deletes, which are not read.
    low, high
        Between which its event times are, ms; None if nobody noted it.
    data
        What its format needs to read it.
    """

    path: str
    rows: int
    low: int | None = None
    high: int | None = None
    data: object = None


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit did to the rows of a table.

    Attributes
    ----------
    added, removed
        Files; one that keeps rows of removed files is added.
    commit
        Which one; None for what a rollback took back.
    """

    added: Sequence[File] = ()
    removed: Sequence[File] = ()
    commit: Commit | None = None


class Files(Protocol):
    """The files of a table, as far as their event time goes."""

    def times(self, file: File, below: int) -> list[int]:
        """Read the event times of a file that are below one, ms."""

    def extent(self, version: int) -> tuple[int, int] | None:
        """Find the least and the greatest event time at a version, ms; None without one."""


def until_now(commits: Sequence[Commit], cursor: Cursor) -> int | None:
    """Find until when a table is complete now, by its newest commits; None if unknown.

    Parameters
    ----------
    commits
        The newest first: all behind the cursor, and the one before them.
    cursor
        What it says still holds if nothing has ended notes since.
    """
    newest = commit_in_effect(commits)
    if any(commit.ends_notes for commit in commits):
        return None if newest is None else newest.time
    times = [cursor.until, None if newest is None else newest.time]
    return max(time for time in times if time is not None)


def work_list(
    name: str,
    files: Files,
    changes: Iterable[Change],
    *,
    now: Cursor,
    before: Cursor | None,
    first: int | None,
) -> WorkList:
    """List the intervals that a job has to run, and to run again.

    Parameters
    ----------
    name
        Of the table.
    changes
        Since the call before, oldest first, what was taken back before all.
    now, before
        Where the table is, and where it was at the call before.
    first
        The start of the first interval that counts; None for the table's first one.

    Raises
    ------
    TooManyIntervalsError
        If there are more than 100 000.
    """
    tiling = now.tiling
    begin, end = _extent_of_new(files, now, before, first=first)
    again: list[Interval] = []
    if before is not None:
        until = min(before.until, now.until)
        changed = ChangedIntervals(tiling, name, until, first)
        _collect(files, changes, changed, reached=before.until)
        again = changed.listed()
    new = [] if begin is None else list(tiling.between(name, begin, end))
    return WorkList(now.version, now.until, new, again, now.to_text())


def _extent_of_new(
    files: Files, now: Cursor, before: Cursor | None, *, first: int | None
) -> tuple[int | None, int]:
    """Find from where up to where intervals are complete now, and were not before."""
    tiling, ends = now.tiling, now.until == END_OF_TIME
    starts_anew = before is None and first is None
    rows = files.extent(now.version) if ends or starts_anew else (0, 0)
    if rows is None:
        return None, now.until
    earliest, latest = rows
    end = tiling.after(tiling.floor(latest)) if ends else now.until
    if before is None:
        return (tiling.floor(earliest) if first is None else first), end
    if before.until >= end:
        return None, end
    begin = tiling.floor(before.until)
    return (begin if first is None else max(begin, first)), end


def _collect(
    files: Files, changes: Iterable[Change], changed: ChangedIntervals, *, reached: int | None
) -> None:
    """Collect what changed; ``reached`` is until when the table was complete before."""
    for change in changes:
        if change.removed:
            for file in (*change.added, *change.removed):
                changed.add_rewritten(_touched(files, file, changed))
        else:
            for file in change.added:
                if _may_have(file, changed):
                    changed.add_late(files.times(file, changed.until), reached)
        if change.commit is not None:
            if change.commit.ends_notes:
                reached = None
            time = change.commit.time
            if time is not None:
                reached = time if reached is None else max(reached, time)


def _may_have(file: File, changed: ChangedIntervals) -> bool:
    """Whether a file may have rows in intervals that were complete, and count."""
    if file.low is None or file.high is None:
        return True
    is_before = changed.first is not None and file.high < changed.first
    return file.low < changed.until and not is_before


def _touched(files: Files, file: File, changed: ChangedIntervals) -> Iterable[int]:
    """List times, one at least in each interval that may have rows of a file."""
    if not _may_have(file, changed):
        return []
    if file.low is None or file.high is None:
        return files.times(file, changed.until)
    is_long = file.high - file.low > _LONG * changed.tiling.length
    if is_long and file.rows:
        return files.times(file, changed.until)
    return changed.starts_between(file.low, file.high)
