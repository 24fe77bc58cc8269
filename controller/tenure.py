"""A tenure: the time during which this controller holds the database."""

import asyncio
from collections.abc import Sequence
from typing import Any

from controller.commit.sequencer import log_failure
from controller.factory import Parts
from controller.store.streams import read_listening

_DATABASE_GRACE_S = 4.0
"""How long a database that hangs is waited for in the end: callers are cut off after 10 s, and
to connect in vain takes 5 s more."""


class Tenure:
    """Starts and ends what a tenure is made of, in an order that must not change."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.hot_paths: Sequence[Any] = ()
        """What answers calls of this tenure in front of the framework; the edge makes it."""
        self._grace: asyncio.TimerHandle | None = None
        self._unstored_before = 0

    async def start(self) -> None:
        """Read the streams back and begin to work."""
        parts, health = self.parts, self.parts.health
        # Before anything is read: clocks of writers are compared with this one.
        parts.clocks.listening.go_on_from(await parts.database.read(read_listening))
        # The sequencer first, since to read back means to submit; `end` ends it last.
        health.tasks.append(parts.sequencer.start())
        begin = asyncio.create_task
        health.tasks += [begin(work(), name=name) for name, work in parts.work.items()]
        await parts.registry.restore_all()
        await parts.groups.restore_all()
        # Only now time counts against writers: while streams are read back, nobody is heard.
        stamping = parts.stamping
        health.tasks += [
            begin(stamping.stamp_forever(), name="stamping listening time"),
            begin(stamping.probe_forever(), name="trying whether changes can be stored"),
        ]
        for task in health.tasks:
            task.add_done_callback(log_failure)
        for state in parts.registry:  # what fell due meanwhile
            state.touch()
        health.started = True

    def begin_to_end(self) -> None:
        """Answer every long poll, now and from now on.

        A database that hangs is given up in a while, so that calls that wait for it are answered.
        """
        parts = self.parts
        if self._grace is None:
            loop = asyncio.get_running_loop()
            self._grace = loop.call_later(_DATABASE_GRACE_S, parts.database.give_up)
            self._unstored_before = parts.sequencer.unstored
        for state in parts.registry:
            state.changed.close()

    @property
    def unstored(self) -> int:
        """How many of the last changes were not stored, or nobody knows whether they were."""
        return self.parts.sequencer.unstored - self._unstored_before

    async def finish(self, *, is_lost: bool = False) -> None:
        """Finish what was submitted, with a stamp of listening time, unless the right is lost."""
        self.begin_to_end()
        parts = self.parts
        if is_lost:
            parts.database.give_up()
        await cancel(parts.health.tasks[1:])  # they submit more
        if parts.health.started and not is_lost:
            parts.stamping.stamp_last()
        await parts.sequencer.close()
        parts.health.ended = True

    async def close(self) -> None:
        """Close the database, and release what was read of it."""
        if self._grace is not None:
            self._grace.cancel()
        await asyncio.to_thread(self.parts.database.close)
        # Streams and what holds them refer to each other; the collector comes rarely.
        await self.parts.registry.clear()


async def cancel(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks and wait for them."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
