"""The rows of one stream's aggregation: which to write, and which storage can do without."""

from itertools import islice

from tidegauge.changes import Changes, StoredReport
from tidegauge.lattice import DownSet
from tidegauge.marks import Mark
from tidegauge.writers import KeptReport, Writer


class Ledger:
    """Collects what the next transaction writes.

    A report is a row of its own, inserted and never updated. Once the newest mark has taken it
    in, its writer's row says all that it said; *folding* then writes that row and deletes those
    of the reports, a few writers at a time. While the mark stands still, folding joins reports
    at or below it into each writer's last.
    """

    def __init__(self) -> None:
        self._changes = Changes()
        self._serial = 0
        self._settled_serial = 0
        """The last report that the newest mark took in."""
        self._foldable: dict[Writer, None] = {}
        """Writers with stored reports at or below the watermark."""
        self._dirty: dict[str, Writer] = {}
        self._merged: dict[int, KeptReport] = {}

    def enter(self, writer: Writer, time: int, gained: DownSet) -> KeptReport:
        """Give a report its serial, and write it."""
        self._serial += 1
        report = KeptReport(self._serial, time, gained, writer)
        self._changes.reports.append(_row(report))
        return report

    def enter_again(self, row: StoredReport, writer: Writer, gained: DownSet) -> KeptReport:
        """Take in a report that is stored."""
        self.skip(row)
        return KeptReport(row.serial, row.time, gained, writer)

    def skip(self, row: StoredReport) -> None:
        """Leave a stored report out; its serial is taken."""
        self._serial = max(self._serial, row.serial)

    def change(self, writer: Writer) -> None:
        """Write a writer's row."""
        self._dirty[writer.name] = writer

    def settle(self, report: KeptReport) -> None:
        """Note that a report is at or below the watermark."""
        report.writer.settled.append((report.serial, report.time))
        self._foldable[report.writer] = None

    def merge(self, dropped: KeptReport, into: KeptReport) -> None:
        """Let a report say what another said too."""
        self._changes.dropped.append(dropped.serial)
        self._merged[into.serial] = into

    def drop_reports(self, writer: Writer) -> None:
        """Delete all reports of a writer."""
        self._changes.dropped.extend(serial for serial, _ in writer.settled)
        self._changes.dropped.extend(report.serial for report in writer.kept)
        writer.settled = []
        self._foldable.pop(writer, None)

    def forget(self, writer: Writer) -> None:
        """Delete a writer and its reports."""
        self._foldable.pop(writer, None)
        self._dirty.pop(writer.name, None)
        self._changes.forgotten.append(writer.name)

    def publish(self, mark: Mark) -> None:
        """Write a mark, which has taken in every report so far."""
        self._settled_serial = self._serial
        self._changes.marks.append(mark)

    def count(self, reporters: int, forgotten_incarnation: int) -> None:
        """Write the counters of the stream."""
        self._changes.counters = reporters, forgotten_incarnation

    @property
    def has_rows_to_fold(self) -> bool:
        """Whether `fold` may find something."""
        return bool(self._foldable)

    def fold(self, newest: Mark | None, limit: int, *, at_least: int) -> None:
        """Delete reports that their writers' rows make needless.

        Parameters
        ----------
        newest
            The newest mark.
        limit
            At most so many writers.
        at_least
            Only writers with so many rows.
        """
        for writer in list(islice(self._foldable, limit)):
            del self._foldable[writer]
            needless = [row for row in writer.settled if self._is_needless(newest, *row)]
            if len(needless) >= at_least:
                self._drop_settled(writer, needless)
                self.change(writer)
            if len(writer.settled) > at_least and not writer.kept:
                self._join_settled(writer)
            if writer.settled:
                self._foldable[writer] = None

    def _drop_settled(self, writer: Writer, rows: list[tuple[int, int]]) -> None:
        needless = set(rows)
        self._changes.dropped.extend(serial for serial, _ in rows)
        writer.settled = [row for row in writer.settled if row not in needless]

    def _join_settled(self, writer: Writer) -> None:
        """Let the last report say what all did: who repeats a time must not fill the disk.

        While none is kept, all that the writer reported belongs to the next cut.
        """
        serial, time = writer.settled[-1]
        self._drop_settled(writer, writer.settled[:-1])
        self._merged[serial] = KeptReport(serial, time, dict(writer.position), writer)
        self.change(writer)

    def _is_needless(self, newest: Mark | None, serial: int, time: int) -> bool:
        return serial <= self._settled_serial and newest is not None and time < newest.lower

    def take(self, holds: dict[str, int | None]) -> Changes:
        """Hand out what storage must write in one transaction, and begin anew."""
        changes, self._changes = self._changes, Changes()
        changes.holds = holds
        changes.writers = [writer.stored() for writer in self._dirty.values()]
        changes.merged = [
            _row(report) for report in self._merged.values() if not report.dropped
        ]
        self._dirty, self._merged = {}, {}
        return changes


def _row(report: KeptReport) -> StoredReport:
    writer = report.writer
    return StoredReport(
        report.serial, writer.name, writer.incarnation, report.time, report.gained
    )
