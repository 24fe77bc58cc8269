"""Holds: who held a watermark, from when to when."""

from typing import Literal, TypeAlias

import msgspec

HoldEnd: TypeAlias = Literal[
    "noted", "left", "silence", "standing_still", "operator", "sealed", "quiet"
]
"""What the writer of a span did; *sealed* and *quiet* are of the stream."""


class Hold(msgspec.Struct, frozen=True):
    """A span in which one writer held the watermark throughout; rule 8b.2."""

    number: int
    """Rises by one from span to span of a stream."""
    since_ms: int
    """Wall clock, as the next two."""
    until_ms: int
    """Now, if it goes on."""
    began_ms: int
    """When the whole hold began, of which this is the last part so far."""
    held_ms: int
    """How much of the span counts: of a gap between reports at most 5 minutes."""
    watermark: int | None
    """That stood."""
    reached: int | None
    """The watermark that ended it; None if the watermark did not advance."""
    writer: str
    others: int
    """How many more held it at a moment in the second half of the span."""
    silence_ms: int
    """The longest time in it between two passes that found a report of anybody."""
    reported: bool
    """Whether a pass before its last one found a report of the writer."""
    unheard_ms: int
    """Wall clock in which no report could be taken, or by which it was set forward."""
    end: HoldEnd | None
    """How the writer ceased to hold; None while it goes on."""
