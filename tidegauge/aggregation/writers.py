"""One writer as the aggregation sees it."""

from dataclasses import dataclass, field

import msgspec

from tidegauge.aggregation.changes import (
    MadeBy,
    Standing,
    StoredClocks,
    StoredReport,
    StoredWriter,
)
from tidegauge.lattice import DownSet, raise_to
from tidegauge.states import WriterState

_REGISTRATIONS_KNOWN = 4
"""Of a writer: a copy that is later than so many restarts is taken for a new one."""


class Now(msgspec.Struct, frozen=True):
    """The two clocks that a caller brings, in ms."""

    wall_ms: int
    """Wall clock, for times in the future and for how long somebody was silent."""
    listening_ms: int
    """Listening time, for everything that may expire a writer."""


class KeptReport(msgspec.Struct, eq=False):
    """A report that may still shape a mark: above the watermark when last looked at.

    There is one for every report of every writer: a struct is made in half the time of a dataclass.
    """

    serial: int
    time: int
    gained: DownSet
    """What it covers beyond the writer's report before it."""
    writer: "Writer"
    following: "KeptReport | None" = None
    dropped: bool = False


@dataclass(slots=True, eq=False)
class Writer:
    """The record of one writer; the names of its fields are those of `StoredWriter`."""

    name: str
    incarnation: int = 0
    standing: Standing = "live"
    time: int | None = None
    position: DownSet = field(default_factory=dict)
    former_position: DownSet = field(default_factory=dict)
    former_time: int | None = None
    reported: bool = False
    stand: int | None = None
    """Where it stands: its latest time, or what its registration answered."""
    stands_by_report: bool = False
    """Whether a report of its own says so, perhaps one before a restart."""
    grace: bool = False
    """Whether it may come back, or start its clocks anew, once more."""
    ended_time: int | None = None
    """Greatest latest time of its incarnations that ended since the mark `ended_revision`."""
    ended_revision: int = 0
    first_time: int | None = None
    """Of the first report of its incarnation."""
    found_time: int | None = None
    """Its latest time as the latest look found it; None if this incarnation had noted none."""
    found_ms: int | None = None
    """Listening time of the look that first found it."""
    silence_stamp: int | None = None
    limit_stamp: int | None = None
    gone_ms: int | None = None
    gone_watermark: int | None = None
    """The watermark at which it last left or expired."""
    pace_time: int | None = None
    pace_ms: int | None = None
    """From where its approach is measured, and since when."""
    catch_up_ms: int | None = None
    """How long the others would wait for it at its pace, as last judged; this is not stored."""
    heard_ms: int | None = None
    registrations: tuple[MadeBy, ...] = ()
    """Its last registrations that had an id, the newest last."""
    kept: list[KeptReport] = field(default_factory=list)
    """Its reports above the watermark, in order; an empty deque would take 760 bytes."""
    holds: bool = False
    ahead: bool = False
    is_front: bool = False
    """Whether it stood at the greatest when last looked at."""
    is_fresh: bool = False
    """Whether its clocks start anew at the next look."""
    is_heard: bool = False
    """Whether a report of it was accepted since the latest look."""

    @classmethod
    def restore(cls, stored: StoredWriter) -> "Writer":
        """Make a writer of what is stored, without the reports that it keeps."""
        return cls(
            name=stored.writer,
            incarnation=stored.incarnation,
            standing=stored.standing,
            time=stored.time,
            position=dict(stored.position),
            former_position=dict(stored.former_position),
            former_time=stored.former_time,
            reported=stored.reported,
            heard_ms=stored.heard_ms,
            registrations=stored.registrations,
            **stored.clocks._asdict(),
        )

    def know(self, report: StoredReport) -> None:
        """Take in a stored report, and when the writer had last spoken; None: that is not stored."""
        raise_to(self.position, report.gained)
        self.time = report.time if self.time is None else max(self.time, report.time)
        self.first_time = report.time if self.first_time is None else self.first_time
        self.stand, self.stands_by_report = self.time, True
        if report.heard_ms is not None:
            self.heard_ms = max(self.heard_ms or report.heard_ms, report.heard_ms)

    def start_afresh(self, incarnation: int, revision: int) -> DownSet:
        """Keep nothing of the former incarnation but its position and what it noted.

        Parameters
        ----------
        incarnation
            The new one.
        revision
            Of the newest mark.

        Returns
        -------
        dict of int to int
            What the former incarnation reported.
        """
        reported, self.position = self.position, {}
        raise_to(self.former_position, reported)
        times = (self.former_time, self.time)
        self.former_time = max((time for time in times if time is not None), default=None)
        if self.time is not None:
            ended = self.ended_since(revision)
            self.ended_time = self.time if ended is None else max(ended, self.time)
            self.ended_revision = revision
        self.time = self.first_time = self.found_time = self.found_ms = None
        self.pace_time = self.pace_ms = self.catch_up_ms = None
        self.incarnation = incarnation
        return reported

    def made_by(self, registration_id: str) -> int | None:
        """Tell which incarnation a registration made; None if it is not known."""
        return dict(self.registrations).get(registration_id)

    def remember(self, registration_id: str) -> None:
        """Know the registration that made the present incarnation."""
        made = (registration_id, self.incarnation)
        self.registrations = (*self.registrations, made)[-_REGISTRATIONS_KNOWN:]

    def ended_since(self, revision: int) -> int | None:
        """Tell the greatest that incarnations noted which ended since the newest mark, ms."""
        return self.ended_time if self.ended_revision == revision else None

    def go_out(self, now_ms: int, watermark: int | None) -> None:
        """Note when and where it left or expired, and from where its way back is measured."""
        is_found = self.found_time is not None and self.found_time == self.time
        self.pace_time = self.time
        self.pace_ms = self.found_ms if is_found else now_ms
        self.gone_ms, self.gone_watermark = now_ms, watermark
        self.catch_up_ms = None

    def shift(self, by_ms: int) -> None:
        """Count listening time from another point, but for `gone_ms`."""
        if self.found_ms is not None:
            self.found_ms += by_ms
        if self.pace_ms is not None:
            self.pace_ms += by_ms

    def come_back(self) -> None:
        """Note that it is live again."""
        self.gone_ms = self.gone_watermark = None
        self.pace_time = self.pace_ms = self.catch_up_ms = None

    def is_news(self, watermark: int | None, revision: int) -> bool:
        """Tell whether its latest time is progress beyond what the latest look found."""
        time = self.time
        return (
            time is not None
            and (watermark is None or time > watermark)
            and time != self.found_time
            and (
                self.ended_time is None
                or self.ended_revision != revision
                or time > self.ended_time
            )
        )

    def stored(self) -> StoredWriter:
        """Tell what to store of this writer."""
        return StoredWriter(
            self.name,
            self.incarnation,
            self.standing,
            self.time,
            self.position.copy(),
            self.former_position.copy(),
            self.former_time,
            self.reported,
            self.heard_ms,
            [(one.time, one.gained) for one in self.kept],
            StoredClocks(*(getattr(self, name) for name in StoredClocks._fields)),
            self.registrations,
        )

    @property
    def live(self) -> bool:
        """Whether it counts for the watermark."""
        return self.standing == "live"

    @property
    def returning(self) -> bool:
        """Whether it is out, and has registered or noted a later time since it went out."""
        if self.standing == "live":
            return False
        if self.pace_ms is None or self.gone_ms is None:
            return True
        return self.time != self.pace_time or self.pace_ms > self.gone_ms

    @property
    def joining(self) -> bool:
        """Whether it is live and silent so far: it may write anything."""
        return self.time is None and self.standing == "live"

    @property
    def whole_position(self) -> DownSet:
        """What all of its incarnations reported."""
        if not self.former_position:
            return self.position
        keys = self.former_position.keys() | self.position.keys()
        return {n: max(self.former_position.get(n, 0), self.position.get(n, 0)) for n in keys}

    def noted_above(self, upper: int | None) -> bool:
        """Tell whether it, or a former incarnation, noted a time above this one."""
        times = (self.time, self.former_time)
        return any(upper is None or time > upper for time in times if time is not None)

    def state(self, *, somebody_waits: bool) -> WriterState:
        """Name the state that section 2 of the rules gives it."""
        if self.standing != "live":
            return self.standing
        if self.time is None:
            return "joining"
        return "behind" if self.holds and somebody_waits else "active"
