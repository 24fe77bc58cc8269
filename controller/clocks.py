"""The clocks of this process, and what each of them is for.

=================  =====================  =================================================
clock              a suspended machine    what it decides
=================  =====================  =================================================
wall clock         goes on, may be set    how old marks are, what lies too far in the future
listening time     stops                  who of writers and readers was silent for too long
boot clock         goes on                whether a lease is in force: others go on as well
monotonic clock    stops                  waits, pauses and how long something took
=================  =====================  =================================================

Listening time is a monotonic clock that is also stopped while no report can be accepted: see
`controller.background.stamping`. Where a system has no boot clock, leases go by the monotonic one, and who
was suspended finds out at the next transaction, which the database refuses.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from tidegauge.aggregation.writers import Now

STAMP_MS = 250
"""Listening time is stamped so often."""
_LONGEST_STEP_MS = 1_000
_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_s() -> float:
    """Read the boot clock, in seconds."""
    return time.clock_gettime(_BOOT_CLOCK)


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class ListeningClock:
    """Sums the steps of a monotonic clock between stamps, each counted as 1 s at most.

    It continues from the last stamp that was stored. It is stopped until the first stamp, and while
    the clock underneath is behind its last stamp, as on a faulty hypervisor: nobody is given time
    that way.
    """

    def __init__(
        self, stored_ms: int = 0, monotonic_ms: Callable[[], int] = _monotonic_ms
    ) -> None:
        self._monotonic_ms = monotonic_ms
        self._stamp_ms = stored_ms
        self._stamped_at = monotonic_ms()
        self._halted = True

    def go_on_from(self, stored_ms: int) -> None:
        """Continue from a stamp that was stored, before the first stamp of this process."""
        self._stamp_ms = stored_ms

    def now_ms(self) -> int:
        """Read the clock."""
        if self._halted:
            return self._stamp_ms
        step = self._monotonic_ms() - self._stamped_at
        return self._stamp_ms + min(max(step, 0), _LONGEST_STEP_MS)

    @property
    def stamp_age_ms(self) -> int:
        """How long ago the last stamp was made, by the clock underneath."""
        return self._monotonic_ms() - self._stamped_at

    def stamp(self, *, halt: bool = False) -> int:
        """Make a stamp, due every 250 ms; if nobody can be heard, halt the clock until the next."""
        self._stamp_ms = self.now_ms()
        self._stamped_at = self._monotonic_ms()
        self._halted = halt
        return self._stamp_ms


@dataclass(slots=True)
class Clocks:
    """Wall clock and listening time of this controller."""

    listening: ListeningClock

    def now(self) -> Now:
        """Read both, in ms."""
        return Now(time.time_ns() // 1_000_000, self.listening.now_ms())
