"""Until when a table is complete, by the notes of its commits. All of it is pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from tidegauge.tables.errors import TooOldError, TwoJobsError

if TYPE_CHECKING:  # it is made of pydantic, which executors need not load
    from tidegauge.tables.notes import Note

COMMITS_READ = 20
"""Jobs that declare by turns, or at once, are seen within so many commits."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A version of a table.

    Attributes
    ----------
    version
        The commit's number, or the sequence number of its snapshot.
    note
        What it says of time; None if nothing.
    ends_notes
        Whether it took back what notes before it rest on: a restore, a rollback, a full
        overwrite, a table made again.
    has_rows
        Whether it may have brought rows that a stream of the table reads.
    at
        When it was made, wall clock in ms; for people.
    is_first
        Whether no commit was before it.
    """

    version: int
    note: "Note | None" = None
    ends_notes: bool = False
    has_rows: bool = True
    at: int = 0
    is_first: bool = False

    @property
    def time(self) -> int | None:
        """The time up to which the table is complete, as its note says, ms; None if it says nothing."""
        return None if self.note is None else self.note.time


def commit_in_effect(newest_first: Iterable[Commit]) -> Commit | None:
    """Find the commit whose note holds at the newest of some; None if nothing is known.

    Of jobs that note time to one stream, one may commit what it asked for before another committed
    more. So the greatest of what each said last holds: before a job asked, it had seen all that is
    below its own former note.
    """
    greatest: Commit | None = None
    said, count = set[str](), 0
    for commit in newest_first:
        if commit.note is not None and commit.time is not None:
            if commit.note.declarer in said:
                return greatest
            said.add(commit.note.declarer)
            if greatest is None or greatest.time is None or commit.time > greatest.time:
                greatest = commit
        count += greatest is not None
        if commit.ends_notes or count == COMMITS_READ:
            return greatest
    return greatest


def has_ended(newest_first: Iterable[Commit], *, had_notes: bool = False) -> bool:
    """Whether there were notes, as who asks may know, and a commit has ended them, and none has followed."""
    commits = iter(newest_first)
    for commit in commits:
        if commit.time is not None:
            return False
        if commit.ends_notes:
            return had_notes or any(older.time is not None for older in commits)
    return False


def is_whole(newest_first: Iterable[Commit]) -> bool:
    """Whether all commits that a table ever had are still kept; so of one without any."""
    oldest = None
    for commit in newest_first:
        oldest = commit
    return oldest is None or oldest.is_first


def declaring(newest_first: Iterable[Commit]) -> "Note | None":
    """Find the newest note, though it may say no time; None if there is none, or it has ended."""
    for commit in newest_first:
        if commit.note is not None:
            return commit.note
        if commit.ends_notes:
            return None
    return None


def has_taken_over(query: str, newest_first: Iterable[Commit]) -> bool:
    """Whether a query took over a table's time already, since notes last ended."""
    for commit in newest_first:
        note = commit.note
        if note is not None and note.query == query and note.took_over:
            return True
        if commit.ends_notes:
            return False
    return False


def check_jobs(table: str, newest_first: Iterable[Commit]) -> None:
    """Raise `TwoJobsError` where the notes of the newest commits go A, B, A.

    A and B are queries, or jobs where a note names no query; the queries of a stream are one.
    Where one took over, what was before is settled, and nobody else may follow without doing so.
    """
    turns: list[Note] = []
    for commit in islice(newest_first, COMMITS_READ):
        note = commit.note
        if note is not None:
            if turns and note.agrees_with(turns[-1]):
                # A note that names no query is by whichever query of its job is beside it.
                turns[-1] = turns[-1] if turns[-1].query else note
            elif again := [later for later in turns if later.agrees_with(note)]:
                raise TwoJobsError.between(table, again[0], turns[-1])
            else:
                turns.append(note)
            if note.took_over and len(turns) == 1:
                return
            if note.took_over and turns[-2].query is not None:
                raise TwoJobsError.between(table, turns[-2], note)
        if commit.ends_notes:
            return


def first_complete(table: str, time: int, newest_first: Iterable[Commit]) -> Commit | None:
    """Find the first version that is complete until a time; None if the newest is not.

    Raises
    ------
    TooOldError
        If the oldest commit that is kept is complete until then already.
    """
    first: Commit | None = None
    said_less = set[str]()
    for commit in newest_first:
        if commit.note is not None and commit.time is not None:
            # Who said less than the time later had seen all that is here and below; see `commit_in_effect`.
            if commit.note.declarer in said_less or len(said_less) == COMMITS_READ:
                return first
            if commit.time >= time:
                first = commit
            else:
                said_less.add(commit.note.declarer)
        if commit.ends_notes or commit.is_first:
            return first
    if first is not None and not said_less:
        raise TooOldError(table, time, first.version)
    return first


def covered(newest_first: Iterable[Commit], version: int) -> Iterator[Commit]:
    """List, newest first, the commits that a position covers which covers a version.

    Commits right behind it that brought no rows are covered at once.

    Parameters
    ----------
    newest_first
        All commits from the newest on.
    version
        All rows of this version and of those before it are read.
    """
    behind: list[Commit] = []
    commits = iter(newest_first)
    for commit in commits:
        if commit.version <= version:
            yield from behind
            yield commit
            yield from commits
            return
        if commit.has_rows:
            behind = []
        else:
            behind.append(commit)
