"""The clocks of this process, and what each of them is for.

=================  =====================  =================================================
clock              a suspended machine    what it decides
=================  =====================  =================================================
wall clock         goes on, may be set    how old marks are, what lies too far in the future
listening time     stands                 who of writers and readers was silent for too long
boot clock         goes on                whether a lease is in force: others go on as well
monotonic clock    stands                 waits, pauses and how long something took
=================  =====================  =================================================

Listening time is a monotonic clock that also stands while no report can be taken: see
`controller.stamping`. Where a system has no boot clock, leases go by the monotonic one, and who
was suspended finds out at the next transaction, which the database refuses.
"""

import time
from typing import NamedTuple, Protocol

from controller.listening import ListeningClock
from tidegauge.writers import Now

_BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boot_s() -> float:
    """Read the boot clock, in seconds."""
    return time.clock_gettime(_BOOT_CLOCK)


class Clock(Protocol):
    """What can be asked for the time."""

    def now(self) -> Now:
        """Read wall clock and listening time, in ms."""


class Clocks:
    """Wall clock and listening time.

    Parameters
    ----------
    listening
        The listening clock of this controller.
    """

    def __init__(self, listening: ListeningClock) -> None:
        self.listening = listening

    def now(self) -> Now:
        """Read both, in ms."""
        return Now(time.time_ns() // 1_000_000, self.listening.now_ms())


class StillClock(NamedTuple):
    """One reading for many reports that come together."""

    reading: Now

    def now(self) -> Now:
        """Give the reading."""
        return self.reading
