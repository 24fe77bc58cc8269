"""What storage keeps of an aggregation: a changelog, which replayed makes the same again."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tidegauge.lattice import DownSet
from tidegauge.marks import Mark

Standing: TypeAlias = Literal["live", "left", "expired"]

KeptTime: TypeAlias = tuple[int, DownSet]
"""Of a report above the watermark: its time, and what it covers beyond the one before it."""


class StoredReport(NamedTuple):
    """An accepted report."""

    writer: str
    time: int
    gained: DownSet
    """What it covers beyond the writer's report before it."""
    heard_ms: int | None
    """Wall clock at which the writer had last spoken when this was stored."""


class StoredWriter(NamedTuple):
    """A writer as of the transaction that stores it."""

    writer: str
    incarnation: int
    standing: Standing
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
    proved: bool
    """Whether it was ahead of the watermark since it last became live."""
    gone_ms: int | None
    """Listening time at which it last left or expired."""
    hold_since_ms: int | None
    """Listening time at which its clock started."""
    heard_ms: int | None
    """Wall clock at which it last spoke."""
    kept: list[KeptTime]
    """Its reports above the watermark, in order."""


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
    holds
        New start of each clock that started or stopped (None), by name of its writer.
    counters
        How many distinct writers ever reported, and the highest incarnation of a forgotten one.
    reach
        What the next mark covers at least.
    """

    reports: list[StoredReport] = []
    forgotten: list[str] = []
    writers: list[StoredWriter] = []
    holds: dict[str, int | None] = {}
    counters: tuple[int, int] | None = None
    reach: DownSet = {}

    @property
    def length(self) -> int:
        """How many items it adds to the log: reports, and writers with those that they keep."""
        kept = sum(len(one.kept) for one in self.writers)
        return len(self.reports) + len(self.writers) + kept + len(self.forgotten)

    def __bool__(self) -> bool:
        return any(
            (self.reports, self.forgotten, self.writers, self.holds, self.counters, self.reach)
        )


class Changes(msgspec.Struct):
    """What one transaction writes.

    Attributes
    ----------
    entry
        To append to the changelog.
    marks
        To insert.
    begins_compaction
        Whether this entry is the first of those that restate everything.
    ends_compaction
        Whether it is the last: what was there before the first of them is needless now.
    """

    entry: Entry
    marks: list[Mark] = []
    begins_compaction: bool = False
    ends_compaction: bool = False

    def __bool__(self) -> bool:
        return bool(self.entry or self.marks)


@dataclass(frozen=True, slots=True)
class StoredAggregation:
    """Everything that `Changes` wrote so far, but for what is needless."""

    newest: Mark | None = None
    marked_ms: int | None = None
    """Wall clock of the newest mark."""
    entries: Iterable[Entry] = ()
    """In order."""
