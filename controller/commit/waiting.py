"""Waiting for a stream to change, unless there is a reason to give up first."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from tidegauge.errors import TooManyWaitingError

_T = TypeVar("_T")
Reason: TypeAlias = Callable[[], Awaitable[Exception]]
"""Returns once there is a reason to give up: what is to be raised."""


class Condition:
    """Wakes every waiter at once, on the event loop's thread."""

    def __init__(self) -> None:
        self._notices: asyncio.Event | None = None
        """What the present callers wait for; None while none does."""
        self._closed = False

    def notify_all(self) -> None:
        """Wake all callers that wait now."""
        if self._notices is not None:
            self._notices.set()
            self._notices = None

    def close(self) -> None:
        """Wake everybody, now and from now on: the service shuts down."""
        self._closed = True
        self.notify_all()

    async def until(self, find: Callable[[], _T | None], *, wait_ms: int) -> _T | None:
        """Wait until ``find`` returns something; None if the time is over or this is closed.

        ``find`` runs on the event loop, once at first and then after each notice.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1_000
        while (news := find()) is None:
            left = deadline - loop.time()
            if left <= 0 or self._closed:
                return None
            notices = self._notices = self._notices or asyncio.Event()
            try:
                async with asyncio.timeout(left):
                    await notices.wait()
            except TimeoutError:
                return find()
        return news


async def unless(work: Awaitable[_T], *reasons: Reason) -> _T:
    """Wait for something, or raise the first reason to give up, and ask for it no longer."""
    asked = asyncio.ensure_future(work)
    watches = [asyncio.ensure_future(reason()) for reason in reasons]
    try:
        await asyncio.wait({asked, *watches}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise next(watch.result() for watch in watches if watch.done())
        return await asked
    finally:
        for future in (asked, *watches):
            future.cancel()


async def until_hung_up(receive: Receive) -> ClientDisconnect:
    """Return once a caller has closed its connection, and hears no answer any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return ClientDisconnect()


class WaitingRoom:
    """Where long polls wait, with a seat for each."""

    def __init__(self, seats: int) -> None:
        self._seats = seats
        self._taken = 0

    def __len__(self) -> int:
        return self._taken

    async def until(
        self,
        condition: Condition,
        find: Callable[[], _T | None],
        *,
        wait_ms: int,
        hung_up: Reason,
    ) -> _T | None:
        """Wait as `Condition.until` does; a call that finds something at once needs no seat.

        A caller that has hung up releases its seat at once, by `ClientDisconnect`.
        """
        news = find()
        if news is not None or wait_ms == 0:
            return news
        if self._taken >= self._seats:
            raise TooManyWaitingError(self._seats)
        self._taken += 1
        try:
            return await unless(condition.until(find, wait_ms=wait_ms), hung_up)
        finally:
            self._taken -= 1
