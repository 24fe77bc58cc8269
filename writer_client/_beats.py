"""Beats: a writer that has nothing new to say repeats its last time, and so is not silent."""

import asyncio
import time
from collections.abc import Callable

from tidegauge.client.transport import is_transient
from tidegauge.errors import TidegaugeError
from writer_client._calls import WriterCalls


async def beat_on(
    calls: WriterCalls, *, wanted: Callable[[], bool], otherwise: Callable[[], int | None]
) -> None:
    """Beat whenever ``beat_ms`` have passed without a report, if it is wanted then.

    A writer that has noted nothing yet says ``otherwise``. Raises what the service refuses; while it
    does not answer, each beat gives way to the next.
    """
    if calls.beat_ms is None:
        return
    period_s = calls.beat_ms / 1_000
    due_s = calls.reported_s + period_s
    while True:
        await asyncio.sleep(due_s - time.monotonic())
        due_s = calls.reported_s + period_s
        if due_s <= time.monotonic():
            due_s = time.monotonic() + period_s
            if wanted():
                await _beat(calls, otherwise(), period_s)


async def _beat(calls: WriterCalls, otherwise: int | None, period_s: float) -> None:
    try:
        async with asyncio.timeout(period_s):
            await calls.beat(otherwise)
    except TimeoutError:
        calls.transport.begin_outage("a beat was not answered")
    except TidegaugeError as error:
        if not is_transient(error):  # the transport warns of the others
            raise
