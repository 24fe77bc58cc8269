"""Waking those who wait for a stream to change."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


class Condition:
    """Wakes every waiter at once, on the event loop's thread."""

    def __init__(self) -> None:
        self._notices: asyncio.Event | None = None
        """What those wait for who wait now; None while nobody does."""
        self._closed = False

    def notify_all(self) -> None:
        """Wake everybody who waits now."""
        if self._notices is not None:
            self._notices.set()
            self._notices = None

    def close(self) -> None:
        """Wake everybody, now and from now on: the service shuts down."""
        self._closed = True
        self.notify_all()

    async def until(self, look: Callable[[], _T | None], *, wait_ms: int) -> _T | None:
        """Wait until a look finds something; None if the time is over or the bell is closed.

        ``look`` runs on the event loop, once at first and then after each ring.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1_000
        while (found := look()) is None:
            left = deadline - loop.time()
            if left <= 0 or self._closed:
                return None
            notices = self._notices = self._notices or asyncio.Event()
            try:
                async with asyncio.timeout(left):
                    await notices.wait()
            except TimeoutError:
                return look()
        return found
