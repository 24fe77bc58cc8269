"""The clocks of this process, read together."""

from time import time_ns

from controller.listening import ListeningClock
from tidegauge.writers import Now


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
