"""One writer as the aggregation sees it."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import msgspec

from tidegauge.aggregation.changes import Standing, StoredReport, StoredWriter
from tidegauge.lattice import DownSet, raise_to

WriterState: TypeAlias = Literal["joining", "active", "behind", "expired", "left"]


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
    proved: bool = False
    gone_ms: int | None = None
    hold_since_ms: int | None = None
    heard_ms: int | None = None
    kept: list[KeptReport] = field(default_factory=list)
    """Its reports above the watermark, in order; an empty deque would take 760 bytes."""
    holds: bool = False
    ahead: bool = False

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
            proved=stored.proved,
            gone_ms=stored.gone_ms,
            hold_since_ms=stored.hold_since_ms,
            heard_ms=stored.heard_ms,
        )

    def know(self, report: StoredReport) -> None:
        """Take in a stored report, and when the writer had last spoken; None: that is not stored."""
        raise_to(self.position, report.gained)
        self.time = report.time if self.time is None else max(self.time, report.time)
        if report.heard_ms is not None:
            self.heard_ms = max(self.heard_ms or report.heard_ms, report.heard_ms)

    def start_afresh(self, incarnation: int) -> DownSet:
        """Keep nothing of the former incarnation but its position and its greatest time.

        Returns
        -------
        dict of int to int
            What the former incarnation reported.
        """
        reported, self.position = self.position, {}
        raise_to(self.former_position, reported)
        times = (self.former_time, self.time)
        self.former_time = max((time for time in times if time is not None), default=None)
        self.time = None
        self.incarnation = incarnation
        return reported

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
            self.proved,
            self.gone_ms,
            self.hold_since_ms,
            self.heard_ms,
            [(one.time, one.gained) for one in self.kept],
        )

    @property
    def live(self) -> bool:
        """Whether it counts for the watermark."""
        return self.standing == "live"

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
