"""How one query declares until when a table is complete. All of it is pure.

It goes by the notes of the commits that are kept, and by what its checkpoint remembers of them.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Protocol

from tidegauge.event_time import describe_event_time
from tidegauge.tables.errors import TwoJobsError
from tidegauge.tables.history import Commit, commit_in_effect, declaring, has_ended, is_whole

if TYPE_CHECKING:  # as in `history`
    from tidegauge.tables.notes import Note


@dataclass(frozen=True, slots=True)
class Memory:
    """What the checkpoint of a query remembers of its table.

    Attributes
    ----------
    table_id
        Of the table to which the query's batches went.
    version
        Of the newest note that the query said; None before the first.
    time
        Until when the table was complete then, ms; None if nothing was known.
    begun
        The newest batch that the query began to commit, -1 before the first.
    """

    table_id: str
    version: int | None = None
    time: int | None = None
    begun: int = -1

    @classmethod
    def from_text(cls, text: str) -> "Memory":
        """Read what `to_text` wrote."""
        return cls(**json.loads(text))

    def to_text(self) -> str:
        """Write it as JSON."""
        return json.dumps(asdict(self))

    def is_behind(self, number: int, committed: int | None) -> bool:
        """Whether the checkpoint is older than the table, as one restored from a backup is.

        It plans batches anew then, by numbers that the table has: they would be taken for done.

        Parameters
        ----------
        number
            Of the first batch of a run.
        committed
            The query's newest batch in the table; None if none is known.
        """
        if committed is None or number > committed:
            return False
        return number < committed or self.begun < number


class Commits(Protocol):
    """The commits of a table that are kept.

    Attributes
    ----------
    name
        Of the table.
    """

    name: str

    def newest_first(self) -> Iterator[Commit]:
        """List them."""


class Declarer:
    """A query as the one that declares a table's time.

    Parameters
    ----------
    own
        A note of the query, as far as all of them are alike.
    memory
        What its checkpoint remembers.
    log
        Of the table.
    """

    def __init__(self, own: "Note", memory: Memory, log: Commits) -> None:
        self.own, self.memory, self._log = own, memory, log

    def time(self) -> int | None:
        """Find until when the table is complete, ms, though no note may be kept; None if unknown."""
        newest = commit_in_effect(self._log.newest_first())
        known = [None if newest is None else newest.time]
        if self._still_holds():
            known.append(self.memory.time)
        return max((time for time in known if time is not None), default=None)

    def recalled(self) -> Memory:
        """Renew what is remembered by the newest note that the query has said since."""
        said = -1 if self.memory.version is None else self.memory.version
        for commit in self._log.newest_first():
            note = commit.note
            if commit.ends_notes or commit.version <= said:
                break
            if note is not None and not note.agrees_with(self.own):
                break
            if note is not None and note.query == self.own.query:
                return replace(self.memory, version=commit.version, time=self.time())
        return self.memory

    def why_not(self) -> str | None:
        """Say why the query may not declare unless it takes over; None if it may."""
        newest = declaring(self._log.newest_first())
        # A query that is started again after its own end has batches without rows.
        if newest is not None and newest.final and newest.query != self.own.query:
            cure = "append to another one. Here all rows would be late"
            return f"its last note is final, and a table that has ended does not begin again: {cure}"
        if newest is not None and not newest.agrees_with(self.own):
            return self._of_another(newest)
        if self.memory.version is not None:
            has_ended_notes = not self._still_holds()
        else:
            has_ended_notes = newest is None and has_ended(self._log.newest_first())
        if has_ended_notes:
            return "its notes were ended by a restore, a rollback or an overwrite"
        # The stream knows the time of all its jobs.
        is_known = newest is not None or self.memory.version is not None or self.own.shared
        if not is_known and not is_whole(self._log.newest_first()):
            return "its oldest commits are not kept, nor is any note, so that a job may declare its time"
        return None

    def check_meanwhile(self, before: int, former: int | None) -> None:
        """Raise `TwoJobsError` if somebody else has declared behind what the query planned with.

        Rows that the query counted as on time may be behind that note.

        Parameters
        ----------
        before
            The newest version when it planned.
        former
            Until when the table was complete then, ms.
        """
        for commit in self._log.newest_first():
            if commit.version <= before:
                return
            note = commit.note
            if note is None or note.query == self.own.query:
                continue
            says_more = note.time is not None and (former is None or note.time > former)
            if not note.agrees_with(self.own) or (says_more and not self.own.shared):
                raise TwoJobsError.between(self._log.name, note, self.own)

    def _of_another(self, newest: "Note") -> str:
        time = self.time()
        at = "no time" if time is None else describe_event_time(time)
        who = f"stream {newest.job!r}" if newest.shared else f"job {newest.job!r}"
        if newest.job == self.own.job:
            who = f"query {newest.query!r} of {who}"
        return f"{who} declares its time, and has come to {at}"

    def _still_holds(self) -> bool:
        """Whether nothing has taken back the note that is remembered, as far as commits are kept."""
        if self.memory.version is None:
            return False
        for commit in self._log.newest_first():
            if commit.version <= self.memory.version:
                is_it = commit.note is not None and commit.note.query == self.own.query
                return is_it and commit.version == self.memory.version
            if commit.ends_notes:
                return False
        return True
