"""The changelog of one stream's aggregation, as stream processors keep one of their state.

Every transaction appends an *entry*: the reports that it accepted, and the writers that changed
otherwise. Once the log is a few times as long as what it says, it is *compacted*: transactions
restate some writers each, with the reports that they keep, until all are restated. Then the
entries before the first of those are needless. So a report costs a part of an entry and a third
of a restated writer, however many writers there are, and no transaction has to wait for much.
"""

from collections.abc import Sequence

from tidegauge.aggregation.changes import Changes, ClockState, Entry, Look, StoredReport
from tidegauge.aggregation.clocks import HoldClocks
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.writers import KeptReport, Writer
from tidegauge.holds import Hold
from tidegauge.marks import Mark

_SHORT = 32
"""A log of so few items is not worth compacting."""
_TIMES_AS_LONG = 4
"""Compacting begins at so many times what there is to restate, and ends at half of that."""
_RESTATED = 256
"""At least so many items a transaction: all of a small stream, in a millisecond."""


class Changelog:
    """Collects what the next transaction appends.

    Parameters
    ----------
    roster, cut, clocks
        Of the stream's aggregation.
    """

    def __init__(self, roster: Roster, cut: RunningCut, clocks: HoldClocks) -> None:
        self._roster = roster
        self._cut = cut
        self._clocks = clocks
        self._serial = 0
        self._reports: list[KeptReport] = []
        self._looks: list[Look] = []
        self.restate_clocks = False
        self._marks: list[Mark] = []
        self._holds: list[Hold] = []
        self._length = 0
        """Of the log, in items: reports, and writers with the reports that they keep."""
        self._needless = 0
        """As much of it is needless once all writers are restated."""
        self._unstated: list[Writer] | None = None
        """Writers that are not restated yet, the first one last; None while nothing is compacted."""

    @property
    def next_serial(self) -> int:
        """The serial of the next report."""
        return self._serial + 1

    def restore(self, serial: int, length: int) -> None:
        """Continue after a report of that serial, and after a log of so many items."""
        self._serial, self._length = serial, length

    def enter(self, reports: Sequence[KeptReport]) -> None:
        """Append reports, which have the next serials in order."""
        self._reports.extend(reports)
        self._serial += len(reports)

    @property
    def entered(self) -> int:
        """How many reports the next transaction appends so far."""
        return len(self._reports)

    def look(self, look: Look) -> None:
        """Append a look at the clocks."""
        self._looks.append(look)

    def publish(self, mark: Mark) -> None:
        """Write a mark."""
        self._marks.append(mark)

    def hold(self, holds: list[Hold]) -> None:
        """Write spans that ended."""
        self._holds += holds

    def take(self, state: ClockState, *, stagger: int, compact: bool) -> Changes:
        """Return what storage must write in one transaction, and begin anew.

        Parameters
        ----------
        state
            Of the clocks.
        stagger
            So many items more are not worth compacting: streams whose writers report equally
            often would all be compacted at the same time.
        compact
            Whether to begin compacting however short the log is.
        """
        roster, reports, clocks = self._roster, self._reports, self._clocks
        begins = self._unstated is None and (compact or self._is_long(stagger))
        if begins:
            self._unstated, self._needless = list(roster)[::-1], self._length
        ends = self._restate()
        for report in reports:
            # A look may have heard a report that is merged into one which came after it.
            if report.dropped and roster.find(report.writer.name) is report.writer:
                roster.change(report.writer)
        changes = Changes(
            Entry(
                [
                    StoredReport(
                        report.writer.name,
                        report.time,
                        report.gained,
                        report.writer.noted.heard_ms,
                    )
                    for report in reports
                    if not report.dropped
                ],
                roster.forgotten,
                [writer.stored(clocks.stored(writer)) for writer in roster.changed.values()],
                [
                    look._replace(
                        reports=sum(not report.dropped for report in reports[: look.reports])
                    )
                    for look in self._looks
                ],
                roster.counters,
                # What was released may be in no mark yet, nor in a report that is kept.
                self._cut.reach.copy() if ends else {},
                # Looks from here on say what moved since the one before them.
                state if begins or self.restate_clocks else None,
            ),
            self._marks,
            self._holds,
            begins_compaction=begins,
            ends_compaction=ends,
        )
        self._length += changes.entry.length
        if ends:
            self._length -= self._needless
        self._reports, self._looks, self._marks, self._holds = [], [], [], []
        self.restate_clocks = False
        roster.changed, roster.forgotten, roster.counters = {}, [], None
        return changes

    def _is_long(self, stagger: int) -> bool:
        live = len(self._roster) + len(self._cut)
        return self._length > max(_SHORT + stagger, _TIMES_AS_LONG * live)

    def _restate(self) -> bool:
        """Restate some writers, and return whether all are restated now."""
        if self._unstated is None:
            return False
        items = max(_RESTATED, len(self._reports))
        while self._unstated and items > 0:
            writer = self._unstated.pop()
            if self._roster.find(writer.name) is writer:
                self._roster.change(writer)
                items -= 1 + len(writer.kept)
        if self._unstated:
            return False
        self._unstated = None
        self._roster.recount()
        return True
