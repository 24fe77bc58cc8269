"""Writers that left or expired, until they are forgotten."""

from collections.abc import Iterable

from tidegauge.aggregation.writers import Writer
from tidegauge.lattice import DownSet, includes


class Departures:
    """The writers that are gone, in the order of going.

    A writer is forgotten once its retention is over and the newest cut covers what it wrote;
    those that no cut covers yet are checked again only when there is a new one.
    """

    def __init__(self) -> None:
        self._gone: dict[Writer, None] = {}
        self._overdue: dict[Writer, None] = {}
        self._checked_revision = 0

    def __bool__(self) -> bool:
        return bool(self._gone or self._overdue)

    def restore(self, writers: Iterable[Writer]) -> None:
        """Add all that are gone."""
        gone = [writer for writer in writers if writer.life.gone_ms is not None]
        for writer in sorted(gone, key=lambda writer: writer.life.gone_ms or 0):
            self.add(writer)

    def add(self, writer: Writer) -> None:
        """Record that a writer left or expired now, perhaps not for the first time."""
        self.remove(writer)
        self._gone[writer] = None

    def remove(self, writer: Writer) -> None:
        """Record that a writer is live again."""
        self._gone.pop(writer, None)
        self._overdue.pop(writer, None)

    def reconsider(self) -> None:
        """Record that the retention changed: those that were due may not be any longer."""
        self._gone = {**self._overdue, **self._gone}
        self._overdue = {}

    def first_due(self, retention_ms: int | None) -> int | None:
        """Return at which listening time the first of those not yet due is, ms; None if none is."""
        if retention_ms is not None:
            for writer in self._gone:
                return (writer.life.gone_ms or 0) + retention_ms
        return None

    def take_forgotten(
        self, *, gone_by_ms: int, covered: DownSet, revision: int
    ) -> list[Writer]:
        """Remove and return the writers to forget.

        Parameters
        ----------
        gone_by_ms
            Writers that went by then, in listening time, are due.
        covered
            The newest cut as a down-set.
        revision
            Of the newest mark; 0 before the first, when nothing is covered, not even nothing.
        """
        due = []
        for writer in self._gone:
            if (writer.life.gone_ms or 0) > gone_by_ms:
                break
            due.append(writer)
        for writer in due:
            del self._gone[writer]
            self._overdue[writer] = None
        if revision != self._checked_revision:
            due = list(self._overdue)
            self._checked_revision = revision
        if revision == 0:
            return []
        forgotten = [writer for writer in due if includes(covered, writer.noted.whole_position)]
        for writer in forgotten:
            del self._overdue[writer]
        return forgotten
