"""What can go wrong with the time of tables."""

from typing import TYPE_CHECKING, Self

from tidegauge.errors import TidegaugeError
from tidegauge.event_time import describe_event_time

if TYPE_CHECKING:  # it is made of pydantic, which executors need not load
    from tidegauge.tables.notes import Note

_SHOWN = 200
"""Characters of a library's reason; some list all that they know."""


class TableError(TidegaugeError):
    """The base of what this package raises.

    Attributes
    ----------
    table
        The address or the name of the table, as it was given.
    """

    def __init__(self, table: str, problem: str) -> None:
        self.table = table
        super().__init__(f"table {table}: {problem}")


class UnreadableTableError(TableError):
    """There is no such table, it cannot be reached, or its format is not supported."""

    @classmethod
    def of(cls, table: str, error: Exception, cure: str = "") -> Self:
        """Make the error of what a library failed with: one line of it, and what to do."""
        reason = str(error).strip().partition("\n")[0].rstrip("!.") or type(error).__name__
        reason = reason if len(reason) <= _SHOWN else f"{reason[:_SHOWN]}…"
        return cls(table, f"{reason}; {cure}" if cure else reason)


class InvalidNoteError(TableError):
    """A commit has a note that this version cannot read.

    Attributes
    ----------
    version
        Of the commit.
    """

    def __init__(self, table: str, version: int, problem: str) -> None:
        self.version = version
        super().__init__(table, f"the note of version {version} {problem}")


class TwoJobsError(TableError):
    """Two jobs, or two queries of a job, declare the time of one table in turn.

    Attributes
    ----------
    jobs
        Their names; the ids of the queries where they are of one job.
    """

    def __init__(self, table: str, first: str, second: str, *, job: str | None = None) -> None:
        self.jobs = first, second
        who = f"jobs {first!r} and {second!r}"
        if job is not None:
            who = f"queries {first!r} and {second!r} of job {job!r}"
        cure = (
            "stop one of them, and let the other take over (take_over=True), with a new checkpoint "
            "if it did so before; or let both note time to one stream of the service: pass url= "
            "and stream= to append_to_table()"
        )
        super().__init__(table, f"{who} declare its time by turns; {cure}")

    @classmethod
    def between(cls, table: str, first: "Note", second: "Note") -> Self:
        """Name those who have said two notes."""
        if first.job != second.job:
            return cls(table, first.job, second.job)
        return cls(table, first.declarer, second.declarer, job=first.job)


class TooOldError(TableError):
    """The table was complete up to the time before the oldest note that is kept.

    Attributes
    ----------
    time
        That was asked for, ms.
    version
        The oldest one that is known to be complete until then; it may not be the first.
    """

    def __init__(self, table: str, time: int, version: int) -> None:
        self.time, self.version = time, version
        cure = f"version {version} is the oldest that is known to be; read that"
        super().__init__(
            table,
            f"the version that became complete until {describe_event_time(time)} is no longer kept; {cure}",
        )


class IncompleteTableError(TableError, TimeoutError):
    """The table did not become complete up to a time within the timeout.

    Attributes
    ----------
    time
        That was waited for, ms.
    complete_until
        The time up to which the table is complete, ms; None if nothing is known.
    """

    def __init__(self, table: str, time: int, complete_until: int | None) -> None:
        self.time, self.complete_until = time, complete_until
        reached = (
            "records no event time yet"
            if complete_until is None
            else f"is complete until {describe_event_time(complete_until)}"
        )
        super().__init__(
            table, f"is not complete until {describe_event_time(time)}: it {reached}"
        )
