"""Waiting for something, unless there is a reason to give up first."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypeVar

from starlette.requests import ClientDisconnect
from starlette.types import Receive

_T = TypeVar("_T")
Reason: TypeAlias = Callable[[], Awaitable[Exception]]
"""Returns once there is a reason to give up: what is to be raised."""


async def unless(wanted: Awaitable[_T], *reasons: Reason) -> _T:
    """Wait for something, or raise the first reason to give up, and ask for it no longer."""
    asked = asyncio.ensure_future(wanted)
    watches = [asyncio.ensure_future(reason()) for reason in reasons]
    try:
        await asyncio.wait({asked, *watches}, return_when=asyncio.FIRST_COMPLETED)
        if not asked.done():
            raise next(watch.result() for watch in watches if watch.done())
        return await asked
    finally:
        for one in (asked, *watches):
            one.cancel()


async def until_hung_up(receive: Receive) -> ClientDisconnect:
    """Return once a caller has closed its connection, and hears no answer any more."""
    while (await receive())["type"] != "http.disconnect":
        pass
    return ClientDisconnect()
