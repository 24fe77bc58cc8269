"""What an accepted report changes, and a short way for the usual one.

Nearly every report is *usual*: it is above the watermark; its writer is live and has grace, speaks
for its present incarnation, and names offsets that do not fall, of segments that grow and whose
ancestors it has full. Such a report changes the
writer's record, where it stands and the kept reports, and nothing else. Whatever is not usual,
every refusal included, goes the long way, `Aggregator.note_time` and `Intake.take_one`, which does
the same to a usual report.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

import msgspec

from tidegauge.aggregation.capping import Capping
from tidegauge.aggregation.marking import Marking
from tidegauge.aggregation.membership import Membership
from tidegauge.aggregation.parts import Parts
from tidegauge.aggregation.writers import KeptReport, Writer
from tidegauge.lattice import includes
from tidegauge.topology import Position

_time = attrgetter("time")


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


class Bounds(msgspec.Struct, frozen=True):
    """What a usual report is within."""

    offsets: Mapping[int, int]
    """The greatest that may be named, of each segment that grows."""
    ancestors: Mapping[int, Position]
    """What the writer must have of what comes before a segment, before it names that."""
    latest: int
    """The latest time, ms."""
    watermark: int | None
    """All times are above it, ms; None before the first mark."""


class Intake:
    """Records accepted reports.

    Parameters
    ----------
    parts, marking, members
        Of the stream's aggregation.
    """

    def __init__(self, parts: Parts, marking: Marking, members: Membership) -> None:
        self._roster, self._cut, self._progress, self._clocks, self._changelog = parts
        self._capping = Capping(parts.cut)
        self._marking = marking
        self._members = members

    def take_one(self, record: Writer, time: int, counts: Position, wall_ms: int) -> None:
        """Record any report: its time, and its position as a down-set."""
        noted, stand, live = record.noted, record.stand, record.life.presence == "live"
        position, watermark = noted.position, self._marking.watermark
        gained = {n: count for n, count in counts.items() if count > position.get(n, 0)}
        position.update(gained)
        if stand.by_report and noted.time is None:
            self._members.find_reached()  # with where it stood before its restart
        # Nearly always; then nothing changes but where it stands.
        goes_on = stand.ahead and noted.time is not None and live
        noted.time = time
        self._roster.hear(record, wall_ms)
        if not record.life.grace:
            self._members.give_grace(record, time)
        stand.at, stand.by_report = time, True
        if noted.first_time is None:
            noted.first_time = time
            self._roster.change(record)
        self._clocks.heard[record] = None
        if not live:
            self._members.go_on(record)
            if watermark is None or time > watermark:
                self._members.come_back(record)
        if not noted.reported:
            self._roster.count_reporter(record)
        report = KeptReport(self._changelog.next_serial, time, gained, record)
        self._changelog.enter([report])
        self.keep(report)
        if goes_on:
            self._progress.follow(record, time)
        else:
            self._members.classify(record)

    def keep(self, report: KeptReport) -> None:
        """Keep a report, if it is above the watermark."""
        if self._cut.add(report, self._marking.watermark):
            self._capping.limit(report.writer, len(self._roster))
            self._capping.limit_all(self._roster.writers)

    def take(
        self, reports: Sequence[SignedReport], bounds: Bounds, wall_ms: int
    ) -> Iterator[int]:
        """Record reports in order.

        Yields
        ------
        int
            The place of each that is not usual, for the caller to deal with before it goes on.
        """
        places = enumerate(reports)
        while (unusual := self._take_usual(places, bounds, wall_ms)) is not None:
            yield unusual

    def _take_usual(
        self, reports: Iterator[tuple[int, SignedReport]], bounds: Bounds, wall_ms: int
    ) -> int | None:
        """Record reports up to one that is not usual; return its place, None if all are."""
        find, heard = self._roster.find, self._clocks.heard
        greatest, latest, watermark = bounds.offsets, bounds.latest, bounds.watermark
        ancestors = bounds.ancestors
        serial = self._changelog.next_serial
        taken: list[KeptReport] = []
        unusual = None
        for place, report in reports:
            record, time, position = find(report.writer), report.time, report.position
            if record is None or position is None:
                unusual = place
                break
            noted, life = record.noted, record.life
            if (
                not life.grace
                or life.presence != "live"
                or life.incarnation != (report.incarnation or 0)
                or noted.time is None
                or not noted.time <= time <= latest
                or (watermark is not None and time <= watermark)
            ):
                unusual = place
                break
            known = noted.position
            gained = {}
            for number, offset in position.items():
                before = known.get(number, 0)
                if (
                    offset < before
                    or offset > greatest.get(number, -1)
                    # Positions are down-sets: with events of a segment go all of its ancestors.
                    or (
                        before == 0
                        and number in ancestors
                        and not includes(known, ancestors[number])
                    )
                ):
                    unusual = place
                    break
                if offset > before:
                    gained[number] = offset
            if unusual is not None:
                break
            known.update(gained)
            noted.time = record.stand.at = time
            noted.heard_ms = wall_ms
            heard[record] = None
            taken.append(KeptReport(serial, time, gained, record))
            serial += 1
            if not record.stand.ahead:
                self._progress.classify(record, watermark)
        if taken:
            self._enter(taken)
        return unusual

    def _enter(self, taken: list[KeptReport]) -> None:
        """Keep the reports that were taken so far."""
        self._changelog.enter(taken)
        self._cut.keep(taken)
        furthest = max(taken, key=_time)
        self._progress.follow(furthest.writer, furthest.time)
        most = self._capping.most_of(len(self._roster))
        for report in taken:
            if len(report.writer.kept) > most:
                self._cut.thin_out(report.writer)
        self._capping.limit_all(self._roster.writers)
        self._roster.last_heard = taken[-1].writer
