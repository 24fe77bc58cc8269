"""Waiting for a stream to change, unless the caller hangs up first."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

from tidegauge.errors import TooManyWaitingError

_T = TypeVar("_T")


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


async def _hung_up(receive: Receive) -> None:
    """Wait until a caller has closed its connection, and hears no answer any more."""
    while (await receive())["type"] != "http.disconnect":
        pass


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
        receive: Receive,
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
        asked = asyncio.ensure_future(condition.until(find, wait_ms=wait_ms))
        hung_up = asyncio.ensure_future(_hung_up(receive))
        try:
            await asyncio.wait({asked, hung_up}, return_when=asyncio.FIRST_COMPLETED)
            if not asked.done():
                await hung_up
                raise ClientDisconnect
            return await asked
        finally:
            asked.cancel()
            hung_up.cancel()
            self._taken -= 1
