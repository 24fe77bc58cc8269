"""Listening time: the clock that may expire writers, fair to outages and suspended machines."""

from collections.abc import Callable
from time import monotonic_ns

STAMP_MS = 250
_LONGEST_STEP_MS = 1_000


def _monotonic_ms() -> int:
    return monotonic_ns() // 1_000_000


class ListeningClock:
    """Sums the steps of a monotonic clock between stamps, each counted as 1 s at most.

    Parameters
    ----------
    stored_ms
        The last stamp that was stored: where the service left off.
    monotonic_ms
        The clock underneath.
    """

    def __init__(self, stored_ms: int, monotonic_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._stamp_ms = stored_ms
        self._stamped_at = monotonic_ms()

    def now_ms(self) -> int:
        """Read the clock."""
        step = self._monotonic_ms() - self._stamped_at
        return self._stamp_ms + min(step, _LONGEST_STEP_MS)

    @property
    def stamp_age_ms(self) -> int:
        """How long ago the last stamp was made, by the clock underneath."""
        return self._monotonic_ms() - self._stamped_at

    def stamp(self) -> int:
        """Make a stamp, due every 250 ms, and return it."""
        self._stamp_ms = self.now_ms()
        self._stamped_at = self._monotonic_ms()
        return self._stamp_ms
