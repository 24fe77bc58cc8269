"""The clocks of this process, read together."""

from time import time_ns
from typing import NamedTuple, Protocol

from controller.listening import ListeningClock
from tidegauge.writers import Now


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
        return Now(time_ns() // 1_000_000, self.listening.now_ms())


class StillClock(NamedTuple):
    """One reading for many reports that come together."""

    reading: Now

    def now(self) -> Now:
        """Give the reading."""
        return self.reading
