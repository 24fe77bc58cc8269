"""What storage keeps of an aggregation: rows out (`Changes`) and rows in (`StoredClock`)."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from tidegauge.marks import Mark
from tidegauge.topology import Position

Standing: TypeAlias = Literal["live", "left", "expired"]


class StoredReport(NamedTuple):
    """One accepted report that may still shape a mark."""

    serial: int
    """Unique in the stream, in order of acceptance."""
    writer: str
    incarnation: int
    time: int
    position: Position


class StoredWriter(NamedTuple):
    """A writer as of the transaction that stores it; later reports are rows of their own."""

    writer: str
    incarnation: int
    standing: Standing
    time: int | None
    """Latest noted in this incarnation, ms."""
    position: Position
    """What this incarnation reported."""
    former_position: Position
    """What former incarnations reported and appended."""
    former_time: int | None
    """Greatest that former incarnations noted, ms."""
    reported: bool
    """Whether it ever had a report accepted."""
    proved: bool
    """Whether it was ahead of the watermark since it last became live."""
    gone_ms: int | None
    """Listening time at which it last left or expired."""
    hold_since_ms: int | None
    """Listening time at which its clock started."""
    heard_ms: int | None
    """Wall clock at which it last spoke."""


@dataclass(slots=True)
class Changes:
    """What one transaction writes, so that `StoredClock` restores the same aggregation.

    Attributes
    ----------
    reports
        To insert.
    merged
        To give a new position, by serial.
    dropped
        Serials to delete; the writers they belong to are in ``writers``, or forgotten.
    writers
        To insert or replace, by name.
    forgotten
        Names to delete, with their reports and append sequences, after everything else: changes
        are to be taken after a pass before anything more happens under one of these names.
    holds
        New start of each clock that started or stopped (None), by name of its writer.
    marks
        To insert.
    counters
        To store with the stream, if changed: how many distinct writers ever reported, and the
        highest incarnation of a forgotten one.
    """

    reports: list[StoredReport] = field(default_factory=list)
    merged: list[StoredReport] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)
    writers: list[StoredWriter] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    holds: dict[str, int | None] = field(default_factory=dict)
    marks: list[Mark] = field(default_factory=list)
    counters: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Roughly how many rows are written."""
        return (
            len(self.reports)
            + len(self.merged)
            + len(self.dropped)
            + len(self.writers)
            + len(self.forgotten)
            + len(self.holds)
            + len(self.marks)
        )

    def __bool__(self) -> bool:
        return self.count > 0 or self.counters is not None


@dataclass(frozen=True, slots=True)
class StoredClock:
    """Everything that `Changes` wrote so far."""

    newest: Mark | None = None
    marked_ms: int | None = None
    """Wall clock of the newest mark."""
    reporters: int = 0
    forgotten_incarnation: int = 0
    writers: Iterable[StoredWriter] = ()
    reports: Iterable[StoredReport] = ()
    """In order of serial."""
