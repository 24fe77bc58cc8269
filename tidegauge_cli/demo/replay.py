"""The clock of the replay, shared by all processes."""

import time
from dataclasses import dataclass

FINE_MARKS = {"mark_interval_ms": 50, "mark_resolution_ms": 60_000}
"""Settings of a stream whose event time runs thousands of times as fast as usual."""


@dataclass(frozen=True, slots=True)
class ReplayClock:
    """Event time that runs at a multiple of wall clock.

    Attributes
    ----------
    start_ms
        Replay time at the start, ms since the epoch.
    started_at
        Wall clock of the start, s since the epoch.
    speed
        Seconds of replay in one second.
    """

    start_ms: int
    started_at: float
    speed: float

    def now_ms(self) -> int:
        """Read the clock."""
        return self.start_ms + int((time.time() - self.started_at) * self.speed * 1_000)
