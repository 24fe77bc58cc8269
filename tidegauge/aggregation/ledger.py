"""What one stream's aggregation has to store: pages of reports, and rows of writers.

The reports of one transaction are one *page*, written once and never changed. Of those that a
mark of the same transaction takes in, the last of each writer stands for all. A page is given up
when most of its reports are needless: the newest mark has taken them in, and their writers'
rows say all that they said. Those that are not go onto the page of the transaction that gives
theirs up, as the garbage collection of a log-structured file does it. So a report costs a part
of one insertion and a part of one deletion, however many come together.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

import msgspec

from tidegauge.aggregation.changes import Changes, StoredPage, StoredReport, StoredWriter
from tidegauge.aggregation.writers import KeptReport, Writer
from tidegauge.lattice import DownSet, raise_to
from tidegauge.marks import Mark

RestoreReport: TypeAlias = Callable[[int, StoredReport], KeptReport | None]
"""Takes in a report of a page; None if it does not count any more."""


_FEW_REPORTS, _MANY_REPORTS = 64, 250_000
"""So many are stored without looking which are needless."""
_REPORTS_A_ROW = 8
"""So many reports of each writer, unless that is very many, before its row takes over."""
_LOOKS_A_REPORT = 4
_NOTHING: DownSet = {}


class _Page(msgspec.Struct):
    number: int
    reports: list[KeptReport]


class Ledger:
    """Collects what the next transaction writes."""

    def __init__(self) -> None:
        self._changes = Changes()
        self._serial = 0
        self._folded_serial = 0
        """The last report when pages were folded along."""
        self._settled_serial = 0
        """The last report that the newest mark took in."""
        self._round_serial = 0
        """The same, when the present round of looking through the pages began."""
        self._unseen_pages = 0
        """How many pages are left of the round, the first ones."""
        self._seen_reports = 0
        """How many reports were stored when pages were last looked at."""
        self._dirty: dict[str, Writer] = {}
        self._open = _Page(1, [])
        """What the next transaction writes."""
        self._pages: deque[_Page] = deque()
        """What is stored, but for the open page."""
        self.stored_reports = 0
        """How many reports are on stored pages, needless or not."""

    @property
    def next_entry(self) -> tuple[int, int]:
        """The serial of the next report, and the page that it goes onto."""
        return self._serial + 1, self._open.number

    def enter(self, reports: Sequence[KeptReport]) -> None:
        """Write reports, which have the next serials in order."""
        self._open.reports.extend(reports)
        self._serial += len(reports)

    def restore_pages(self, pages: Iterable[StoredPage], restore: RestoreReport) -> None:
        """Take in what is stored, in order of acceptance; a report's last copy counts."""
        last_page = 0
        stored: dict[int, tuple[int, StoredReport]] = {}
        serials: dict[int, list[int]] = {}
        for one in pages:
            last_page = one.number
            stored |= {row[0]: (last_page, row) for row in one.reports}
            serials[last_page] = [row[0] for row in one.reports]
        self._open = _Page(last_page + 1, [])
        reports = {serial: restore(*stored[serial]) for serial in sorted(stored)}
        for page, of_page in serials.items():
            restored = (reports[serial] for serial in of_page)
            self._add(_Page(page, [one for one in restored if one is not None]))

    def restore(self, page: int, row: StoredReport, writer: Writer | None) -> KeptReport | None:
        """Take in a stored report, in order of serial; None if it does not count any more."""
        serial, _, time, gained, _ = row
        self._serial = max(self._serial, serial)
        if writer is None or serial < writer.since_serial:
            return None
        return KeptReport(serial, time, dict(gained), writer, page)

    def restore_writer(self, writer: Writer) -> None:
        """Take in a stored writer."""
        self._serial = max(self._serial, writer.since_serial - 1)

    def change(self, writer: Writer) -> None:
        """Write a writer's row."""
        self._dirty[writer.name] = writer

    def begin(self, writer: Writer) -> None:
        """Write a writer's row; its reports so far count no longer."""
        writer.since_serial = self._serial + 1
        writer.last_settled = None
        self.change(writer)

    def merge(self, into: KeptReport) -> None:
        """Let a report say what the one before it said too, which is dropped."""
        into.is_amended = into.page != self._open.number

    def settle(self, report: KeptReport) -> None:
        """Note that a report came that is at or below the watermark."""
        report.writer.last_settled = report

    def settle_all(self, reports: Iterable[KeptReport], lower: int) -> None:
        """Note that the newest mark took in reports, in order.

        Of each writer the last of this transaction is stored for all of them. What one that was
        stored before gained is in that cut and on the disk: here it was the most of it.
        """
        page = self._open.number
        for report in reports:
            writer = report.writer
            former = writer.last_settled
            writer.last_settled = report
            if former is None:
                continue
            if former.page == page == report.page:
                # What a writer reports later reaches further, wherever it says something.
                report.gained = former.gained | report.gained
                former.dropped, former.following = True, report
            elif former.time < lower and former.page != page and not former.is_amended:
                former.gained = _NOTHING

    def forget(self, writer: Writer) -> None:
        """Delete a writer; its reports count no longer."""
        writer.since_serial = self._serial + 1
        writer.last_settled = None
        self._dirty.pop(writer.name, None)
        self._changes.forgotten.append(writer.name)

    def leave_stored(self, writers: Iterable[Writer]) -> None:
        """Look at no stored report again: they stay as they are, and shape no mark any more."""
        self._pages.clear()
        self.stored_reports = 0
        for writer in writers:
            writer.last_settled = None

    def publish(self, mark: Mark) -> None:
        """Write a mark, which has taken in every report so far."""
        self._settled_serial = self._serial
        self._changes.marks.append(mark)

    def count(self, reporters: int, forgotten_incarnation: int) -> None:
        """Write the counters of the stream."""
        self._changes.counters = reporters, forgotten_incarnation

    def fold_along(self, newest: Mark | None, writers: int) -> None:
        """Give up pages as fast as reports come, once many are stored for so many writers."""
        new, self._folded_serial = self._serial - self._folded_serial, self._serial
        few = min(max(_FEW_REPORTS, _REPORTS_A_ROW * writers), _MANY_REPORTS)
        if self.stored_reports <= few:
            return
        if self._round_is_due():
            self._round_serial, self._unseen_pages = self._settled_serial, len(self._pages)
        if self._unseen_pages:
            seen = self.fold(newest, _LOOKS_A_REPORT * max(new, 1))
            self._unseen_pages = max(0, self._unseen_pages - seen)
            self._seen_reports = self.stored_reports

    def _round_is_due(self) -> bool:
        """Tell whether looking may find something: after a mark, or many more reports."""
        is_marked = self._settled_serial > self._round_serial
        return is_marked or self.stored_reports > 2 * self._seen_reports

    def fold(self, newest: Mark | None, most: int) -> int:
        """Give up pages that are needless for the most part, looking at each in turn.

        Parameters
        ----------
        newest
            The newest mark.
        most
            Look at no more reports than these and one page, and at none twice.

        Returns
        -------
        int
            How many pages it looked at.
        """
        lower = None if newest is None else newest.lower
        pages = len(self._pages)
        for seen in range(pages):
            if most <= 0:
                return seen
            page = self._pages.popleft()
            most -= len(page.reports)
            needed = self._needed(page, lower)
            if len(needed) * 2 > len(page.reports):
                self._pages.append(page)
            else:
                self._give_up(page, needed)
        return pages

    def take(self, holds: dict[str, int | None]) -> Changes:
        """Hand out what storage must write in one transaction, and begin anew."""
        changes, self._changes = self._changes, Changes()
        changes.holds = holds
        changes.writers = [self._row(writer) for writer in self._dirty.values()]
        self._dirty = {}
        page = _Page(self._open.number, [one for one in self._open.reports if not one.dropped])
        if page.reports:
            entries = [
                (one.serial, one.writer.name, one.time, one.gained, one.writer.heard_ms)
                for one in page.reports
            ]
            changes.page = StoredPage(page.number, entries)
            self._add(page)
        self._open = _Page(page.number + 1, [])
        return changes

    def _add(self, page: _Page) -> None:
        self._pages.append(page)
        self.stored_reports += len(page.reports)

    def _needed(self, page: _Page, lower: int | None) -> list[KeptReport]:
        """List the reports of a page that nothing else says."""
        settled = self._settled_serial
        return [
            one
            for one in page.reports
            if (lower is None or one.time >= lower or one.serial > settled)
            and self._is_needed(one, page.number, lower)
        ]

    def _is_needed(self, report: KeptReport, page: int, lower: int | None) -> bool:
        if report.dropped or report.page != page or report.serial < report.writer.since_serial:
            return False
        return lower is None or report.time > lower or not self._joins_last(report)

    def _joins_last(self, report: KeptReport) -> bool:
        """Let the writer's last report at or below the watermark say what this one does.

        All of those belong to the next cut. Who repeats a time while the mark stands still must
        not fill the disk.
        """
        last = report.writer.last_settled
        if last is None or last.serial <= report.serial:
            return False
        self._join(report, last)
        return True

    def _join(self, report: KeptReport, later: KeptReport) -> None:
        gained = dict(later.gained)
        raise_to(gained, report.gained)
        later.gained = gained
        report.dropped, report.following = True, later
        self.merge(later)

    def _give_up(self, page: _Page, needed: list[KeptReport]) -> None:
        self._changes.pages_given_up.append(page.number)
        self.stored_reports -= len(page.reports)
        for report in needed:
            self._enter_again(report)
        for report in page.reports:
            if report.serial < report.writer.since_serial:
                continue
            if report.dropped:
                self._store_what_it_became(report)
            elif report.page == page.number and report.writer.row_serial < report.serial:
                self.change(report.writer)

    def _enter_again(self, report: KeptReport) -> None:
        report.page = self._open.number
        report.is_amended = False
        self._open.reports.append(report)

    def _store_what_it_became(self, report: KeptReport) -> None:
        into = report.following
        while into is not None and into.dropped:
            into = into.following
        if into is not None and into.is_amended:
            self._enter_again(into)

    def _row(self, writer: Writer) -> StoredWriter:
        writer.row_serial = self._serial
        return writer.stored()
