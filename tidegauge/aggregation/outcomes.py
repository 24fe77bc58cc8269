"""What the aggregation answers."""

from typing import NamedTuple

import msgspec

from tidegauge.holds import Hold
from tidegauge.marks import Mark
from tidegauge.states import WriterState
from tidegauge.topology import Position


class Registration(NamedTuple):
    """The answer to a registration."""

    incarnation: int
    time: int | None
    """Where the writer stands now, ms; None before the first mark, and for one that stays out."""
    watermark: int | None
    state: WriterState
    position: Position
    is_repeated: bool = False
    """Whether it was made before, so that nothing has changed."""


class PassOutcome(msgspec.Struct, frozen=True):
    """What one pass did."""

    marks: list[Mark]
    expired: list[str]
    forgotten: list[str]
    holds: list[Hold]
    """Spans that ended."""
    long_hold: Hold | None = None
    """A span that goes on, of a hold that has become long."""
