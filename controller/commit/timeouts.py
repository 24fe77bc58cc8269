"""Those who wait behind a database that does not come to an end are not kept for ever."""

import asyncio
from collections.abc import Callable
from math import inf

from controller.database import Database

_AGAIN_S = 0.25  # how long those who come later wait at most


class BatchTimeout:
    """Has those who wait refused, once it takes too long until memory equals the disk again.

    It lasts over batches: one that fails, and is followed by others that cannot read back what
    it touched, is no new beginning. ``refuse`` is called when it takes longer than the database
    allows, and again for those who come later.
    """

    def __init__(self, database: Database, refuse: Callable[[], None]) -> None:
        self._database = database
        self._refuse = refuse
        self._behind_since: float | None = None
        """Since when no batch has left memory equal to the disk."""
        self._next: asyncio.TimerHandle | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, now: float) -> None:
        """Take note that a batch begins."""
        if self._behind_since is None:
            self._behind_since = now
        if self._database.timeout_s < inf:
            left_s = self._database.timeout_s - (now - self._behind_since)
            self._next = loop.call_later(max(_AGAIN_S, left_s), self._run_out, loop)

    def end(self, *, level: bool) -> None:
        """Take note that a batch has ended, and whether memory is level with the disk."""
        if level:
            self._behind_since = None
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def _run_out(self, loop: asyncio.AbstractEventLoop) -> None:
        self._next = loop.call_later(_AGAIN_S, self._run_out, loop)
        self._refuse()
