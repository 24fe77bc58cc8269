"""The running cut: kept reports, and what each mark may add to the cut of the one before it.

A writer's contribution to a time x is its position at its first report with time ≥ x. So what a
report gained beyond the writer's report before it belongs to the cut of every x above the time
of *that* report, and to none below. Walking the kept reports in order of time, each one passed
*releases* what the writer's next one gained. Every report is put in order, passed and released
once, whatever the number of writers and segments.

What waits for other writers is a heap. What came since the last walk joins it there if it is
little; if it is more than what waits, all is sorted together, which is cheaper: nearly all came in
order, and most of it is passed at once.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TypeAlias

from tidegauge.aggregation.writers import KeptReport, Writer
from tidegauge.lattice import DownSet, raise_to
from tidegauge.marks import Mark
from tidegauge.topology import Position

_Entry: TypeAlias = tuple[int, int, KeptReport]
"""Time, serial, and the report."""
_time = attrgetter("time")
_FEW = 8
"""So many reports are taken off the heap before sorting all is thought of."""


class RunningCut:
    """The down-set that the next mark's cut is made of, and the reports that will extend it.

    Attributes
    ----------
    reach
        The newest cut and everything released since.
    upper
        The greatest time of what was released, ms.
    """

    def __init__(self) -> None:
        self.reach: DownSet = {}
        self.upper: int | None = None
        self._heap: list[_Entry] = []
        self._recent: list[KeptReport] = []
        """What came since reports were last taken out, in order, and is not on the heap."""
        self._dropped = 0

    def __len__(self) -> int:
        return len(self._heap) + len(self._recent) - self._dropped

    def release(self, counts: Position, time: int | None) -> None:
        """Add to the cut of every mark from now on."""
        for number, count in counts.items():
            if count > self.reach.get(number, 0):
                self.reach[number] = count
        if time is not None and (self.upper is None or time > self.upper):
            self.upper = time

    def forget_upper(
        self, forgotten: Iterable[Writer], newest: Mark | None, writers: Iterable[Writer]
    ) -> None:
        """Compute `upper` again, if it may be a forgotten writer's."""
        upper = None if newest is None else newest.upper
        if not any(writer.noted.is_above(upper) for writer in forgotten):
            return
        self.upper = upper
        for writer in writers:
            self.release({}, writer.noted.former_time)
            if writer.kept:
                self.release({}, writer.kept[0].time)

    def add(self, report: KeptReport, watermark: int | None) -> bool:
        """Add a writer's newest report; return whether it is kept, being above the watermark."""
        if watermark is None or report.time > watermark:
            self.keep([report])
            return True
        kept = report.writer.kept
        if kept:
            kept[-1].following = report
        else:
            self.release(report.gained, report.time)
        return False

    def keep(self, reports: Sequence[KeptReport]) -> None:
        """Keep reports above the watermark, in order."""
        self._recent += reports
        for report in reports:
            kept = report.writer.kept
            if kept:
                kept[-1].following = report
            else:
                self.release(report.gained, report.time)
            kept.append(report)

    def drop_all(self, writer: Writer) -> None:
        """Drop a writer's kept reports: it restarted, or is forgotten."""
        for report in writer.kept:
            report.dropped = True
        self._dropped += len(writer.kept)
        writer.kept.clear()
        self._compact()

    def drop_of_all(self, writers: Iterable[Writer]) -> None:
        """Drop the kept reports of all writers, which shape no mark any more."""
        self._heap, self._recent, self._dropped = [], [], 0
        for writer in writers:
            writer.kept.clear()

    def thin_out(self, writer: Writer) -> None:
        """Drop every other inner report of a writer, merging it into the one that follows.

        Its cuts become looser, but stay sound: the follower gained what both did.
        """
        reports = list(writer.kept)
        for at in range(1, len(reports) - 2, 2):
            before, inner, after = reports[at - 1 : at + 2]
            gained = dict(inner.gained)
            raise_to(gained, after.gained)
            after.gained = gained
            before.following = after
            inner.dropped = True
            self._dropped += 1
        writer.kept.clear()
        writer.kept.extend(report for report in reports if not report.dropped)
        self._compact()

    def take_reached(self, latest: int) -> tuple[list[KeptReport], int]:
        """Remove, in order of time, the reports up to the time that all live writers reached.

        Returns
        -------
        tuple
            The reports, and that time: that of the first report that is the newest of a live
            writer; ``latest`` if there is none before.
        """
        taken: list[KeptReport] = []
        target = latest
        if len(self._recent) < len(self._heap):
            self._push_recent()
            for _ in range(max(_FEW, len(self._heap) // 32)):
                if not self._heap or self._heap[0][0] > target:
                    return taken, target
                target = self._take(heappop(self._heap)[2], taken, target)
        return self._take_by_sorting(taken, target)

    def _push_recent(self) -> None:
        for report in self._recent:
            heappush(self._heap, (report.time, report.serial, report))
        self._recent = []

    def _take_by_sorting(
        self, taken: list[KeptReport], target: int
    ) -> tuple[list[KeptReport], int]:
        """Remove many, which is cheaper so; what is left is sorted, and so it is a heap."""
        self._heap.sort()
        reports = [report for _, _, report in self._heap]
        reports += self._recent
        reports.sort(key=_time)
        count = 0
        for report in reports:
            if report.time > target:
                break
            count += 1
            target = self._take(report, taken, target)
        self._heap = [(report.time, report.serial, report) for report in reports[count:]]
        self._recent = []
        return taken, target

    def _take(self, report: KeptReport, taken: list[KeptReport], target: int) -> int:
        """Remove a report, unless it was dropped; return up to which time others are."""
        if report.dropped:
            self._dropped -= 1
            return target
        del report.writer.kept[0]
        taken.append(report)
        if report.following is None and report.writer.life.presence == "live":
            return report.time
        return target

    def advance(self, passed: list[KeptReport], lowers: list[int]) -> Iterator[int]:
        """Raise the cut from one lower bound to the next, yielding each when it is reached.

        After the last one the reports at exactly that time are passed too, so that whatever
        follows them belongs to the next mark.
        """
        begin = 0
        for lower in lowers:
            end = bisect_left(passed, lower, begin, key=_time)
            self._pass(passed[begin:end])
            begin = end
            yield lower
        self._pass(passed[begin:])

    def _pass(self, reports: list[KeptReport]) -> None:
        reach, upper = self.reach, self.upper
        for report in reports:
            following = report.following
            if following is not None:
                for number, count in following.gained.items():
                    if count > reach.get(number, 0):
                        reach[number] = count
                if upper is None or following.time > upper:
                    upper = following.time
        self.upper = upper

    def _compact(self) -> None:
        if self._dropped > 64 and self._dropped > len(self):
            self._recent = [report for report in self._recent if not report.dropped]
            self._heap = [entry for entry in self._heap if not entry[2].dropped]
            heapify(self._heap)
            self._dropped = 0
