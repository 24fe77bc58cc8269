"""The timer that wakes a stream for its next pass."""

import asyncio
from collections.abc import Callable
from math import inf

_SOONEST_S = 0.001
"""Timers are no finer, and one that is due at once would keep the loop from its sockets."""


class PassTimer:
    """Wakes a stream for its next pass.

    Listening time is never faster than the loop's, and the interval of marks ends earlier than
    planned only if the settings change: a timer for one deadline is in time for all later ones.
    It refers to what it wakes only while it is set, so that a deleted stream is freed at once.
    """

    def __init__(self) -> None:
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at = inf
        self._planned_ms = inf

    def __bool__(self) -> bool:
        return self._timer is not None

    def is_in_time_for(self, deadline_ms: float) -> bool:
        """Return whether nothing is to be planned for a deadline."""
        return deadline_ms >= self._planned_ms

    def plan_anew(self) -> None:
        """Plan for the next deadline, whatever it is: the interval of marks may end earlier."""
        self._planned_ms = inf

    def plan(self, wake: Callable[[], None], delay_s: float, deadline_ms: float) -> None:
        """Wake after a delay, which is in time for a deadline, unless that comes earlier."""
        delay_s = max(_SOONEST_S, delay_s)
        if self._wake_at <= asyncio.get_running_loop().time() + delay_s:
            self._planned_ms = min(self._planned_ms, deadline_ms)
            return
        self.wake_in(wake, delay_s)
        self._planned_ms = deadline_ms

    def put_off(self, wake: Callable[[], None], delay_s: float) -> None:
        """Wake no sooner than after a delay, if anything was planned."""
        if self._wake_at < asyncio.get_running_loop().time() + delay_s:
            self.wake_in(wake, delay_s)

    def wake_in(self, wake: Callable[[], None], delay_s: float) -> None:
        """Wake after a delay, whatever was planned."""
        self.cancel()
        loop = asyncio.get_running_loop()
        self._wake_at = loop.time() + delay_s
        self._timer = loop.call_at(self._wake_at, self._end, wake)

    def cancel(self) -> None:
        """Wake no more."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._wake_at, self._planned_ms = None, inf, inf

    def _end(self, wake: Callable[[], None]) -> None:
        self.cancel()
        wake()
