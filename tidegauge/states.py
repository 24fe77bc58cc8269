"""The words for what a writer and a watermark are in, which the API, its clients and pages share."""

from typing import Literal, TypeAlias

WriterState: TypeAlias = Literal["joining", "active", "behind", "expired", "left"]
"""Of a writer; the first three are live."""

Clock: TypeAlias = Literal["silence", "standing_still"]
"""What bounds how long one writer holds the others."""

StandBy: TypeAlias = Literal["noted", "registered"]
"""Why a writer stands where it stands: by a time of its own, or by the answer to its registration."""

HELD_AFTER_MS = 10_000
_DISTANCES = 4


def patience_ms(distance_ms: float | None) -> float:
    """Return for how long a watermark may stand before it is held, by the mean distance of its marks.

    Somebody is always last: three writers that note once a minute, in turn, hold nobody.
    """
    return max(HELD_AFTER_MS, _DISTANCES * (distance_ms or 0.0))


Reason: TypeAlias = Literal[
    "no_writers",
    "min_writers",
    "nobody_live",
    "joining",
    "holding",
    "pass_due",
    "caught_up",
    "sealed",
]
"""Why the watermark is where it is."""
