"""The life of a controller: how it starts, hands over and ends."""

import asyncio
import logging
from collections.abc import Callable

from controller.commit.sequencer import log_failure
from controller.factory import Parts
from tidegauge.errors import OutcomeUnknownError, UnavailableError

_QUICK_START_S = 1.0
"""A start that is over by then answers no call with 503; a longer one goes on beside the probes."""
_DATABASE_GRACE_S = 4.0
"""How long a database that hangs is waited for in the end: callers are cut off after 10 s, and
to connect in vain takes 5 s more."""
_HAND_OVER_S = 1.0
"""Calls that are under way usually end by then."""
_log = logging.getLogger(__name__)


class Process:
    """Starts and ends what a controller is made of, in an order that must not change."""

    def __init__(self, parts: Parts) -> None:
        self.on_start: Callable[[], None] = lambda: None
        """Called when all streams are read back."""
        self.parts = parts
        self._starting: asyncio.Task[None] | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._handing_over: asyncio.Task[None] | None = None
        self._unstored_before = 0

    async def begin(self) -> None:
        """Start, in the background if it takes long: probes are answered, other calls get 503."""
        self._starting = asyncio.create_task(self.start(), name="reading the streams back")
        self._starting.add_done_callback(log_failure)
        await asyncio.wait({self._starting}, timeout=_QUICK_START_S)

    @property
    def failed(self) -> bool:
        """Whether the start came to nothing."""
        starting = self._starting
        return starting is not None and starting.done() and not self.parts.health.started

    async def start(self) -> None:
        """Read the streams back and begin to work."""
        parts, health = self.parts, self.parts.health
        # Before anything is read: clocks of writers are compared with this one.
        parts.clocks.listening.go_on_from(await parts.ownership.stored_listening())
        # The sequencer first, since to read back means to submit; `_hand_over` ends it last.
        health.tasks = [parts.sequencer.start(), *health.tasks]
        begin = asyncio.create_task
        health.tasks += [begin(work(), name=name) for name, work in parts.work.items()]
        await parts.ownership.start()
        # Only now time counts against writers: while streams are read back, nobody is heard.
        stamping = parts.stamping
        health.tasks += [
            *parts.ownership.tasks,
            begin(stamping.stamp_forever(), name="stamping listening time"),
            begin(stamping.probe_forever(), name="trying whether changes can be stored"),
        ]
        for task in health.tasks:
            task.add_done_callback(log_failure)
        for state in parts.registry:  # what fell due meanwhile
            state.touch()
        health.started = True
        self.on_start()

    def begin_to_end(self) -> None:
        """Answer every long poll, now and from now on: the service shuts down.

        A database that hangs is given up in a while, so that calls that wait for it are answered.
        What other controllers can go on with is given up sooner, however long a client takes to
        send the rest of its call.
        """
        parts = self.parts
        if self._grace is None:
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(_DATABASE_GRACE_S, parts.database.give_up)
            if parts.ownership.lease.controller is not None:
                loop.call_later(_HAND_OVER_S, self._begin_to_hand_over)
            self._unstored_before = parts.sequencer.unstored
        parts.ownership.closing.set()
        for state in parts.registry:
            state.changed.close()

    async def close(self) -> None:
        """Answer the calls that wait, finish what was submitted, close the database."""
        self.begin_to_end()
        await self._begin_to_hand_over()
        self.parts.database.close()

    def _begin_to_hand_over(self) -> asyncio.Task[None]:
        if self._handing_over is None:
            self._handing_over = asyncio.create_task(self._hand_over(), name="handing over")
        return self._handing_over

    async def _hand_over(self) -> None:
        """Finish what was submitted, and give everything up, or say what is left undone."""
        parts = self.parts
        await _cancel([self._starting] if self._starting is not None else [])
        if parts.health.started:
            _, *background = parts.health.tasks
            await _cancel(background)  # it submits more, and takes what is to be given up
            await parts.ownership.stop()
            await parts.sequencer.close()  # after `stop`, which stores a stamp
        try:
            # Last: once the lease is given back, others take over what the last batch stored.
            await parts.ownership.leave()
        except (OutcomeUnknownError, UnavailableError) as error:
            _log.error(
                "ended without the database: the lease was not given back, but runs out; of the "
                "last changes, %d were not stored, or nobody knows whether they were: %s",
                parts.sequencer.unstored - self._unstored_before,
                error.reason,
            )
        if self._grace is not None:
            self._grace.cancel()


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
