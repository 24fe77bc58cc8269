"""What storage keeps of an aggregation: a changelog, which replayed makes the same again."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tidegauge.event_time import FIRST_TIME
from tidegauge.holds import Hold
from tidegauge.lattice import DownSet
from tidegauge.marks import Mark

UNSOUGHT = FIRST_TIME
"""In place of a time that was not computed yet: no watermark is below it."""

Presence: TypeAlias = Literal["live", "left", "ended", "expired"]
"""Ended is left for good: the source of the writer has ended."""

KeptTime: TypeAlias = tuple[int, DownSet]
"""Of a report above the watermark: its time, and what it covers beyond the one before it."""

MadeBy: TypeAlias = tuple[str, int]
"""The id of a registration, and the incarnation that it made."""


class StoredReport(NamedTuple):
    """An accepted report."""

    writer: str
    time: int
    gained: DownSet
    """What it covers beyond the writer's report before it."""
    heard_ms: int | None
    """Wall clock at which the writer had last spoken when this was stored."""


class StoredClocks(NamedTuple):
    """What decides how long a writer may hold the watermark."""

    stand: int | None
    stands_by_report: bool
    grace: bool
    ended_time: int | None
    ended_revision: int
    first_time: int | None
    found_time: int | None
    found_ms: int | None
    silence_stamp: int | None
    limit_stamp: int | None
    gone_ms: int | None
    gone_watermark: int | None
    pace_time: int | None
    pace_ms: int | None
    is_front: bool
    is_fresh: bool
    is_heard: bool
    came_ms: int = 0
    spoke_ms: int = 0


class StoredTime(NamedTuple):
    """A `PassingTime`; the fields are those."""

    ms: int = 0
    counted_ms: int = 0
    moved_ms: int | None = None


class Moment(NamedTuple):
    """A moment on three clocks: listening time, wall clock, and what counts of gaps between reports."""

    listening_ms: int
    wall_ms: int
    counted_ms: int


class Began(NamedTuple):
    """When a span began in which one writer holds the watermark, and the hold that it is a part of."""

    span: Moment
    hold: Moment
    silence_ms: int = 0
    """The longest gap between reports in the span."""


class Paced(NamedTuple):
    """How a watermark has moved lately, each a mean of passes that made marks, and how often it was held."""

    mean_ms: float | None = None
    """Listening time between two; None before the second."""
    marked_ms: int | None = None
    """Listening time of the latest."""
    marks: float = 1.0
    """How many marks one makes."""
    gain: float | None = None
    """Event time gained in one unit of listening time; None before the second."""
    spans: int = 0
    """How many spans were stored so far: the number of the latest."""


class ClockState(NamedTuple):
    """The times of a stream, since when somebody waits, and who is held, as a look left them."""

    silence: StoredTime = StoredTime()
    limit: StoredTime = StoredTime()
    counted: StoredTime = StoredTime()
    waiting: tuple[int, int] | None = None
    """Both times at the look that found somebody ahead of the watermark."""
    front_stand: int | None = None
    """The greatest stand."""
    reached: int | None = None
    """What the others have reached, as the latest pass found it, ms; `UNSOUGHT` until needed."""
    held: Began | None = None
    """The span that goes on; None while nobody is held."""
    paced: Paced = Paced()

    def is_other_than(self, state: "ClockState") -> bool:
        """Return whether more happened since another state than that time passed."""
        return (self.silence.moved_ms, self.limit.moved_ms, *self[3:]) != (
            state.silence.moved_ms,
            state.limit.moved_ms,
            *state[3:],
        )


class Look(NamedTuple):
    """A look at the clocks. Replayed, it does the same to the writers once more.

    So their stamps are not stored with every look.
    """

    reports: int
    """So many of its entry's reports came before it."""
    now_ms: int
    """Listening time."""
    watermark: int | None
    revision: int
    fallen_to: list[str]
    """Writers at the greatest stand because it fell."""
    state: ClockState


class StoredWriter(NamedTuple):
    """A writer as of the transaction that stores it."""

    writer: str
    incarnation: int
    presence: Presence
    time: int | None
    """Latest noted in this incarnation, ms."""
    position: DownSet
    """What this incarnation reported."""
    former_position: DownSet
    """What former incarnations reported and appended."""
    former_time: int | None
    """Greatest that former incarnations noted, ms."""
    reported: bool
    """Whether it ever had a report accepted."""
    heard_ms: int | None
    """Wall clock at which it last spoke."""
    kept: list[KeptTime]
    """Its reports above the watermark, in order."""
    clocks: StoredClocks
    registrations: tuple[MadeBy, ...] = ()
    """The last ones, the newest last."""


class Entry(msgspec.Struct, array_like=True):
    """What one transaction appends to the changelog of a stream.

    Attributes
    ----------
    reports
        That were accepted, in order; what else is here happened after them.
    forgotten
        Names of writers that are known no longer.
    writers
        That changed otherwise, or are restated: each replaces all that was said of it before.
    looks
        At the clocks, in order; before writers are replaced.
    counters
        How many distinct writers ever reported, and the highest incarnation of a forgotten one.
    reach
        What the next mark covers at least.
    state
        Of the clocks, restated.
    """

    reports: list[StoredReport] = []
    forgotten: list[str] = []
    writers: list[StoredWriter] = []
    looks: list[Look] = []
    counters: tuple[int, int] | None = None
    reach: DownSet = {}
    state: ClockState | None = None

    @property
    def length(self) -> int:
        """How many items it adds to the log: reports, and writers with those that they keep."""
        kept = sum(len(writer.kept) for writer in self.writers)
        return len(self.reports) + len(self.writers) + kept + len(self.forgotten)

    def __bool__(self) -> bool:
        return any(
            (
                self.reports,
                self.forgotten,
                self.writers,
                self.looks,
                self.counters,
                self.reach,
                self.state,
            )
        )


class Changes(msgspec.Struct):
    """What one transaction writes.

    Attributes
    ----------
    entry
        To append to the changelog.
    marks, holds
        To insert.
    begins_compaction
        Whether this entry is the first of those that restate everything.
    ends_compaction
        Whether it is the last: what was there before the first of them is needless now.
    """

    entry: Entry
    marks: list[Mark] = []
    holds: list[Hold] = []
    begins_compaction: bool = False
    ends_compaction: bool = False

    def __bool__(self) -> bool:
        return bool(self.entry or self.marks or self.holds)


@dataclass(frozen=True, slots=True)
class StoredAggregation:
    """Everything that `Changes` wrote so far, but for what is needless."""

    newest: Mark | None = None
    entries: Iterable[Entry] = ()
    """In order."""
