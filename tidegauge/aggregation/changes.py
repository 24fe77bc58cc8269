"""What storage keeps of an aggregation: rows out (`Changes`) and rows in (`StoredAggregation`)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from tidegauge.marks import Mark
from tidegauge.topology import Position

Standing: TypeAlias = Literal["live", "left", "expired"]
_REPORTS_A_ROW = 8
"""So many reports of a page are as long as a row."""


StoredReport: TypeAlias = tuple[int, str, int, Position, int | None]
"""One accepted report that may still shape a mark: its serial, unique in the stream and in order
of acceptance; its writer; its time; what it covers beyond the writer's report before it; and the
wall clock at which the writer had last spoken when this was stored."""


class StoredPage(msgspec.Struct, frozen=True):
    """The reports that one transaction stored together."""

    number: int
    """Unique in the stream while it is stored, in order of transactions."""
    reports: Sequence[StoredReport]
    """Of a report that is on several pages, the last one counts."""


class StoredWriter(NamedTuple):
    """A writer as of the transaction that stores it; later reports are on pages."""

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
    since_serial: int
    """The first of the reports on pages that count."""


class Changes(msgspec.Struct):
    """What one transaction writes, so that `StoredAggregation` restores the same aggregation.

    Attributes
    ----------
    page
        To insert, if there were reports.
    pages_given_up
        To delete, by number.
    forgotten
        Names of writers to delete, with their append sequences, before others are written: one
        of these may have come back.
    writers
        To insert or replace, by name.
    holds
        New start of each clock that started or stopped (None), by name of its writer.
    marks
        To insert.
    counters
        To store with the stream, if changed: how many distinct writers ever reported, and the
        highest incarnation of a forgotten one.
    """

    page: StoredPage | None = None
    pages_given_up: list[int] = []
    forgotten: list[str] = []
    writers: list[StoredWriter] = []
    holds: dict[str, int | None] = {}
    marks: list[Mark] = []
    counters: tuple[int, int] | None = None

    @property
    def count(self) -> int:
        """Roughly how many rows are written."""
        return (
            (0 if self.page is None else 1 + len(self.page.reports) // _REPORTS_A_ROW)
            + len(self.pages_given_up)
            + len(self.writers)
            + len(self.forgotten)
            + len(self.holds)
            + len(self.marks)
        )

    def __bool__(self) -> bool:
        return any(
            (
                self.page,
                self.marks,
                self.holds,
                self.writers,
                self.pages_given_up,
                self.forgotten,
                self.counters,
            )
        )


@dataclass(frozen=True, slots=True)
class StoredAggregation:
    """Everything that `Changes` wrote so far."""

    newest: Mark | None = None
    marked_ms: int | None = None
    """Wall clock of the newest mark."""
    reporters: int = 0
    forgotten_incarnation: int = 0
    writers: Iterable[StoredWriter] = ()
    pages: Iterable[StoredPage] = ()
    """In order of number."""
