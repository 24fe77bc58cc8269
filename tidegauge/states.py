"""The words for what a writer and a watermark are in, which the API, its clients and pages share."""

from typing import Literal, TypeAlias

WriterState: TypeAlias = Literal["joining", "active", "behind", "expired", "left"]
"""Of a writer; the first three are live."""

Clock: TypeAlias = Literal["silence", "standing_still"]
"""What bounds how long one writer holds the others."""

StandBy: TypeAlias = Literal["noted", "registered"]
"""Why a writer stands where it stands: by a time of its own, or by the answer to its registration."""

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
