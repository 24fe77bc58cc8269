"""Making the state of an aggregation from its changelog."""

from collections.abc import Callable, Iterable

from tidegauge.aggregation.changes import ClockState, Entry, KeptTime, StoredReport
from tidegauge.aggregation.clocks import HoldClocks
from tidegauge.aggregation.roster import Roster
from tidegauge.aggregation.running_cut import RunningCut
from tidegauge.aggregation.writers import KeptReport, Writer
from tidegauge.lattice import DownSet, raise_to


class Replay:
    """Replays the entries of a changelog, in order.

    Parameters
    ----------
    watermark
        Of the newest mark, ms; None before the first.
    clocks
        Of the writers: every look is repeated.

    Attributes
    ----------
    writers
        By name, with the reports that they keep: those above the watermark.
    reach
        What the next mark covers at least, next to what writers and kept reports say.
    counters
        How many distinct writers ever reported, and the highest incarnation of a forgotten one.
    length
        Of the log, in items.
    state
        Of the clocks.
    serial
        Of the last report that was kept.
    """

    def __init__(self, watermark: int | None, clocks: HoldClocks) -> None:
        self.writers: dict[str, tuple[Writer, list[KeptTime]]] = {}
        self.reach: DownSet = {}
        self.counters = 0, 0
        self.length = self.serial = 0
        self.state = ClockState()
        self._clocks = clocks
        self._watermark = watermark

    def take_in(self, entry: Entry) -> None:
        """Replay an entry.

        One that became needless may still be there, and what it refers to not: reports of writers
        that nobody knows are from before these are restated.
        """
        self.length += entry.length
        raise_to(self.reach, entry.reach)
        done = 0
        for look in entry.looks:
            self._know(entry.reports[done : look.reports])
            done = look.reports
            pairs = map(self.writers.get, look.fallen_to)
            self._clocks.look_again(look, [pair[0] for pair in pairs if pair is not None])
            self.state = look.state
        self._know(entry.reports[done:])
        for name in entry.forgotten:
            self._leave_out(name)
        for row in entry.writers:
            self._leave_out(row.writer)
            writer = Writer.restore(row)
            kept = [report for report in row.kept if self._is_above(*report)]
            self.writers[row.writer] = writer, kept
            self._clocks.restore_writer(writer, row.clocks)
        self.counters = entry.counters or self.counters
        if entry.state is not None:
            self.state = entry.state
            self._clocks.restore(entry.state)

    def hand_over(
        self, roster: Roster, cut: RunningCut, keep: Callable[[KeptReport], None]
    ) -> None:
        """Give the writers to a roster, what they reported to a cut, and keep the rest."""
        cut.release(self.reach, None)
        roster.reporters, roster.forgotten_incarnation = self.counters
        for writer, kept in self.writers.values():
            roster.restore(writer)
            cut.release(writer.noted.former_position, writer.noted.former_time)
            for time, gained in kept:
                self.serial += 1
                keep(KeptReport(self.serial, time, gained, writer))
        roster.settle()

    def _know(self, reports: Iterable[StoredReport]) -> None:
        for report in reports:
            time, gained = report.time, report.gained
            pair = self.writers.get(report.writer)
            if pair is not None:
                pair[0].know(report)
                self._clocks.heard[pair[0]] = None
            if self._is_above(time, gained) and pair is not None:
                pair[1].append((time, gained))

    def _leave_out(self, name: str) -> None:
        pair = self.writers.pop(name, None)
        if pair is not None:
            self._clocks.forget(pair[0])

    def _is_above(self, time: int, gained: DownSet) -> bool:
        """Return whether a report is above the watermark; what others gained was released."""
        if self._watermark is None or time > self._watermark:
            return True
        raise_to(self.reach, gained)
        return False
