"""What the aggregation answers."""

from typing import NamedTuple

import msgspec

from tidegauge.marks import Mark
from tidegauge.topology import Position
from tidegauge.writers import WriterState


class Registration(NamedTuple):
    """The answer to a registration."""

    incarnation: int
    watermark: int | None
    state: WriterState
    position: Position


class PassOutcome(msgspec.Struct, frozen=True):
    """What one pass did."""

    marks: list[Mark]
    expired: list[str]
    forgotten: list[str]
