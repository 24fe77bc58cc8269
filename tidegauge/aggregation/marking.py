"""How marks are made: up to which time, at which times below it, and with which cuts."""

from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.settings import StreamSettings
from tidegauge.aggregation.thinning import most_marks, thinned
from tidegauge.aggregation.writers import KeptReport, Now
from tidegauge.event_time import END_OF_TIME
from tidegauge.lattice import DownSet, down_set, frontier
from tidegauge.marks import Mark
from tidegauge.topology import Position, Topology


class Marking:
    """The newest mark of a stream, and those that follow it.

    Parameters
    ----------
    parts
        Of the stream's aggregation.

    Attributes
    ----------
    newest
        The newest mark.
    watermark
        Its ``lower``, ms; None before the first.
    covered
        Its cut, as a down-set.
    """

    def __init__(self, parts: Parts) -> None:
        self.newest: Mark | None = None
        self.watermark: int | None = None
        self.covered: DownSet = {}
        self._roster, self._cut = parts.roster, parts.cut
        self._progress, self._changelog = parts.progress, parts.changelog

    @property
    def revision(self) -> int:
        """Of the newest mark; 0 before the first."""
        return 0 if self.newest is None else self.newest.revision

    @property
    def final(self) -> bool:
        """Whether the newest mark ends the stream."""
        return self.newest is not None and self.newest.final

    def restore(self, newest: Mark | None, topology: Topology) -> None:
        """Restore the newest mark."""
        if newest is not None:
            self.newest, self.watermark = newest, newest.lower
            self.covered = down_set(topology, newest.cut)
            self._cut.release(self.covered, newest.upper)

    def emit(self, topology: Topology, settings: StreamSettings, now: Now) -> list[Mark]:
        """Make the marks that all reports so far allow."""
        if not self.is_allowed(settings.min_writers) or not self._progress.may_rise:
            return []
        passed, target = self._reached()
        times = [report.time for report in passed]
        most = most_marks(len(topology.segments))
        lowers = thinned(times, target, self.watermark, settings.mark_resolution_ms, most=most)
        marks = []
        for lower in self._cut.advance(passed, lowers):
            marks.append(self._mark(lower, topology, now))
            self._publish(marks[-1], covers_reach=lower == lowers[-1])
        for report in passed:
            if report.following is None:
                self._progress.classify(report.writer, self.watermark)
        for writer in self._progress.registered_up_to(target):
            self._progress.classify(writer, self.watermark)
        return marks

    def is_allowed(self, min_writers: int) -> bool:
        """Return whether enough writers ever reported for a first mark, or there is one."""
        return self.newest is not None or self._roster.reporters >= min_writers

    def end(self, cut: Position, topology: Topology, now: Now) -> Mark:
        """Make the final mark, at the end of time."""
        final = Mark(self.revision + 1, END_OF_TIME, END_OF_TIME, cut, now.wall_ms)
        self._cut.release(down_set(topology, cut), END_OF_TIME)
        self._publish(final, covers_reach=True)
        for writer in self._roster:
            self._progress.classify(writer, self.watermark)
        return final

    def _reached(self) -> tuple[list[KeptReport], int]:
        """Remove the kept reports up to T, and return them and T.

        T is the least that a live writer stands at; if nobody is live, the greatest that one of
        those that left stands at.
        """
        if self._roster.presences["live"]:
            least = self._progress.least_registered
            return self._cut.take_reached(END_OF_TIME if least is None else least)
        greatest = self._progress.greatest
        return self._cut.take_reached(END_OF_TIME if greatest is None else greatest)

    def _mark(self, lower: int, topology: Topology, now: Now) -> Mark:
        upper = lower if self._cut.upper is None else max(lower, self._cut.upper)
        cut = frontier(topology, self._cut.reach)
        return Mark(self.revision + 1, lower, upper, cut, now.wall_ms)

    def _publish(self, mark: Mark, *, covers_reach: bool) -> None:
        self.newest, self.watermark = mark, mark.lower
        self._cut.upper = mark.upper
        if covers_reach:  # once a pass: it is as long as the stream has segments
            self.covered = self._cut.reach.copy()
        self._changelog.publish(mark)
