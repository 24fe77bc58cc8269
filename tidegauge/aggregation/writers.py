"""One writer as the aggregation sees it."""

from dataclasses import dataclass, field

import msgspec

from tidegauge.aggregation.changes import (
    MadeBy,
    Presence,
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
    """A report that may still shape a mark: above the watermark at the latest check.

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
class Noted:
    """What a writer noted: in its present incarnation, unless a field says otherwise."""

    time: int | None = None
    """The latest, ms."""
    position: DownSet = field(default_factory=dict)
    first_time: int | None = None
    former_time: int | None = None
    """The greatest that former incarnations noted, ms."""
    former_position: DownSet = field(default_factory=dict)
    """What former incarnations reported and appended."""
    ended_time: int | None = None
    """Greatest latest time of the incarnations that ended since the mark `ended_revision`."""
    ended_revision: int = 0
    found_time: int | None = None
    """The latest time as the latest look found it; None if there was none."""
    found_ms: int | None = None
    """Listening time of the look that first found it."""
    heard_ms: int | None = None
    """Wall clock at which the writer last spoke."""
    reported: bool = False
    """Whether any incarnation ever had a report accepted."""
    spoke_ms: int = 0
    """Listening time of the first look that found a report since the watermark is held by those that hold."""

    def restart(self, revision: int) -> DownSet:
        """Begin a new incarnation, after the mark of a revision.

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
        return reported

    def ended_since(self, revision: int) -> int | None:
        """Return the greatest time of the incarnations that ended since the newest mark, ms."""
        return self.ended_time if self.ended_revision == revision else None

    def is_news(self, watermark: int | None, revision: int) -> bool:
        """Return whether the latest time is progress beyond what the latest look found."""
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

    def is_above(self, upper: int | None) -> bool:
        """Return whether any incarnation noted a time above this one."""
        times = (self.time, self.former_time)
        return any(upper is None or time > upper for time in times if time is not None)

    @property
    def whole_position(self) -> DownSet:
        """What all incarnations reported."""
        if not self.former_position:
            return self.position
        keys = self.former_position.keys() | self.position.keys()
        return {n: max(self.former_position.get(n, 0), self.position.get(n, 0)) for n in keys}


@dataclass(slots=True, eq=False)
class Stand:
    """Where a writer stands against the watermark; `HoldClocks` has its clocks."""

    at: int | None = None
    """Its latest time, or what its registration answered, ms."""
    by_report: bool = False
    """Whether a report of its own says so, perhaps one before a restart."""
    holds: bool = False
    """Whether it is among `Progress.holders`."""
    ahead: bool = False
    """Whether it is among `Progress.ahead`."""
    came_ms: int = 0
    """Listening time at which it last came to hold a watermark that was held already."""


@dataclass(slots=True, eq=False)
class Life:
    """How a writer came, went and may come back."""

    incarnation: int = 0
    presence: Presence = "live"
    grace: bool = False
    """Whether it may come back, or start its clocks anew, once more."""
    registrations: tuple[MadeBy, ...] = ()
    """Its last registrations that had an id, the newest last."""
    gone_ms: int | None = None
    gone_watermark: int | None = None
    """The watermark at which it last left or expired."""
    pace_time: int | None = None
    pace_ms: int | None = None
    """From where its approach is measured, and since when."""
    catch_up_ms: int | None = None
    """How long the others would wait for it at its pace, as last judged; this is not stored."""

    @property
    def live(self) -> bool:
        """Whether the writer counts for the watermark."""
        return self.presence == "live"

    def restart(self, incarnation: int) -> None:
        """Begin a new incarnation, whose approach is measured anew."""
        self.incarnation = incarnation
        self.pace_time = self.pace_ms = self.catch_up_ms = None

    def made_by(self, registration_id: str) -> int | None:
        """Return the incarnation that a registration made; None if it is not known."""
        return dict(self.registrations).get(registration_id)

    def remember(self, registration_id: str) -> None:
        """Record which registration made the present incarnation."""
        made = (registration_id, self.incarnation)
        self.registrations = (*self.registrations, made)[-_REGISTRATIONS_KNOWN:]

    def go_out(self, noted: Noted, now_ms: int, watermark: int | None) -> None:
        """Record when and where the writer goes out, and from where its way back is measured."""
        is_found = noted.found_time is not None and noted.found_time == noted.time
        self.pace_time = noted.time
        self.pace_ms = noted.found_ms if is_found else now_ms
        self.gone_ms, self.gone_watermark = now_ms, watermark
        self.catch_up_ms = None

    def come_back(self) -> None:
        """Forget that the writer was out."""
        self.gone_ms = self.gone_watermark = None
        self.pace_time = self.pace_ms = self.catch_up_ms = None


@dataclass(slots=True, eq=False)
class Writer:
    """The record of one writer: what it noted, where it stands, and its life."""

    name: str
    noted: Noted
    stand: Stand
    life: Life
    kept: list[KeptReport] = field(default_factory=list)
    """Its reports above the watermark, in order; an empty deque would take 760 bytes."""

    @classmethod
    def new(cls, name: str, incarnation: int, presence: Presence) -> "Writer":
        """Return the record of a writer that is not known yet."""
        return cls(name, Noted(), Stand(), Life(incarnation, presence))

    @classmethod
    def restore(cls, stored: StoredWriter) -> "Writer":
        """Return the record that is stored, without kept reports and stamps of clocks."""
        clocks = stored.clocks
        noted = Noted(
            time=stored.time,
            position=dict(stored.position),
            first_time=clocks.first_time,
            former_time=stored.former_time,
            former_position=dict(stored.former_position),
            ended_time=clocks.ended_time,
            ended_revision=clocks.ended_revision,
            found_time=clocks.found_time,
            found_ms=clocks.found_ms,
            heard_ms=stored.heard_ms,
            reported=stored.reported,
            spoke_ms=clocks.spoke_ms,
        )
        life = Life(
            incarnation=stored.incarnation,
            presence=stored.presence,
            grace=clocks.grace,
            registrations=stored.registrations,
            gone_ms=clocks.gone_ms,
            gone_watermark=clocks.gone_watermark,
            pace_time=clocks.pace_time,
            pace_ms=clocks.pace_ms,
        )
        stand = Stand(clocks.stand, clocks.stands_by_report, came_ms=clocks.came_ms)
        return cls(stored.writer, noted, stand, life)

    def stored(self, clocks: StoredClocks) -> StoredWriter:
        """Return what to store of this writer, with what `HoldClocks` says of it."""
        noted, life = self.noted, self.life
        return StoredWriter(
            self.name,
            life.incarnation,
            life.presence,
            noted.time,
            noted.position.copy(),
            noted.former_position.copy(),
            noted.former_time,
            noted.reported,
            noted.heard_ms,
            [(report.time, report.gained) for report in self.kept],
            clocks,
            life.registrations,
        )

    def know(self, report: StoredReport) -> None:
        """Record a stored report; its `heard_ms` is None where that was not stored."""
        noted = self.noted
        raise_to(noted.position, report.gained)
        noted.time = report.time if noted.time is None else max(noted.time, report.time)
        noted.first_time = report.time if noted.first_time is None else noted.first_time
        self.stand.at, self.stand.by_report = noted.time, True
        if report.heard_ms is not None:
            noted.heard_ms = max(noted.heard_ms or report.heard_ms, report.heard_ms)

    @property
    def joining(self) -> bool:
        """Whether it is live and silent so far: it may write anything."""
        return self.noted.time is None and self.life.presence == "live"

    @property
    def returning(self) -> bool:
        """Whether it is out, and has registered or noted a later time since it went out."""
        life = self.life
        if life.presence == "live":
            return False
        if life.pace_ms is None or life.gone_ms is None:
            return True
        return self.noted.time != life.pace_time or life.pace_ms > life.gone_ms

    def state(self, *, somebody_waits: bool) -> WriterState:
        """Return the state that section 2 of the rules gives it."""
        if self.life.presence != "live":
            return "expired" if self.life.presence == "expired" else "left"
        if self.noted.time is None:
            return "joining"
        return "behind" if self.stand.holds and somebody_waits else "active"
