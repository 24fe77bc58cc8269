"""The usual report, taken in with as little work as there can be.

Nearly every report is *usual*: it is above the watermark; its writer is live, has been ahead of
the watermark since it last became so, speaks for its present incarnation, and names offsets that
do not fall, of segments that grow in a stream that never scaled. Such a report changes the
writer's record, where it stands and the kept reports, and nothing else. Whatever is not usual,
every refusal included, goes the long way, `Aggregator.note_time`, which does the same to a usual
report.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple, Protocol

from tidegauge.capping import Capping
from tidegauge.lattice import DownSet
from tidegauge.ledger import Ledger
from tidegauge.progress import Progress
from tidegauge.roster import Roster
from tidegauge.running_cut import RunningCut
from tidegauge.topology import Position
from tidegauge.writers import Writer


class TimeReport(Protocol):
    """What a report says, whatever read it."""

    @property
    def time(self) -> int:
        """Event time, ms."""

    @property
    def position(self) -> Position | None:
        """How far the writer has written; None for the current tails."""

    @property
    def incarnation(self) -> int | None:
        """From its registration; None if it never registered."""


class SignedReport(TimeReport, Protocol):
    """A report that says whose it is."""

    @property
    def writer(self) -> str:
        """The writer's stable name."""


class Bounds(NamedTuple):
    """What a usual report is within."""

    offsets: Mapping[int, int]
    """The greatest that may be named, of each segment that grows."""
    latest: int
    """The latest time, ms."""
    watermark: int | None
    """All times are above it, ms; None before the first mark."""


class Intake:
    """Takes in usual reports.

    Parameters
    ----------
    roster, ledger, cut, capping, progress
        Of the stream's aggregation.
    """

    def __init__(
        self,
        *,
        roster: Roster,
        ledger: Ledger,
        cut: RunningCut,
        capping: Capping,
        progress: Progress,
    ) -> None:
        self._roster = roster
        self._ledger = ledger
        self._cut = cut
        self._capping = capping
        self._progress = progress

    def take(
        self, reports: Sequence[SignedReport], bounds: Bounds, wall_ms: int
    ) -> Iterator[int]:
        """Take in reports in order.

        Yields
        ------
        int
            The place of each that is not usual, for the caller to deal with before it goes on.
        """
        find = self._roster.find
        greatest, latest, watermark = bounds
        noted: list[tuple[Writer, int, DownSet]] = []
        for place, report in enumerate(reports):
            record, time, position = find(report.writer), report.time, report.position
            if (
                record is None
                or position is None
                or not record.proved
                or record.standing != "live"
                or record.incarnation != (report.incarnation or 0)
                or record.time is None
                or not record.time <= time <= latest
                or (watermark is not None and time <= watermark)
            ):
                self._enter(noted)
                yield place
                continue
            known = record.position
            gained = {}
            for number, offset in position.items():
                before = known.get(number, 0)
                if offset < before or offset > greatest.get(number, -1):
                    self._enter(noted)
                    yield place
                    break
                if offset > before:
                    gained[number] = offset
            else:
                known.update(gained)
                record.time = time
                record.heard_ms = wall_ms
                noted.append((record, time, gained))
                if not record.ahead:
                    self._progress.classify(record, watermark)
        self._enter(noted)

    def _enter(self, noted: list[tuple[Writer, int, DownSet]]) -> None:
        """Keep what was noted so far."""
        if not noted:
            return
        reports = self._ledger.enter(noted)
        self._cut.keep(reports)
        leader, time, _ = max(noted, key=itemgetter(1))
        self._progress.follow(leader, time)
        most = self._capping.most_of(len(self._roster))
        for record, _, _ in noted:
            if len(record.kept) > most:
                self._capping.thin_out(record)
        self._capping.look_at_all(self._roster.writers)
        self._roster.last_heard = noted[-1][0]
        noted.clear()
