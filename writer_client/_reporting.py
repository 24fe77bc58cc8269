"""The background work of a producer to a log of one's own: polling, and covering what the log has."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from tidegauge.errors import ForbiddenError, TidegaugeError
from tidegauge.topology import Position
from tidegauge.wire.streams import StreamInfo
from writer_client._deliveries import Deliveries
from writer_client._membership import Membership, Noted

_log = logging.getLogger("tidegauge.kafka")
_NOTES_AT_ONCE = 500
_POLL_S = 0.01
"""So long it is left to the caller to poll: callbacks in two threads cost more than the rest of them."""
_AGAIN_S = 1
"""A log that refuses, and so answers at once, is asked again after this long."""


class Log(NamedTuple):
    """What is asked of the log."""

    check: Callable[[], object]
    """Raise if it may not be written to; blocks."""
    poll: Callable[[], Awaitable[None]]
    """Serve the acknowledgements that are there, unless somebody else has done so lately."""
    ends: Callable[[], Position]
    """Read the next offset of each partition; blocks."""
    is_away: Callable[[Exception], bool]
    """Whether it may answer later."""


class Reporting:
    """Tasks of a producer: one that polls the log, and those of any member."""

    def __init__(self, member: Membership, deliveries: Deliveries, log: Log) -> None:
        self._member = member
        self._deliveries = deliveries
        self._log = log
        self._polls = asyncio.Event()
        self._partitions: set[int] = set()
        member.fail = deliveries.stop

    async def open(self) -> None:
        """Register, and learn how far the log reaches, which the first note covers."""
        info = await self._member.describe()
        if info.config.log != "external":
            msg = f"{info.stream} has an embedded log: use a Writer, or a stream with log=external"
            raise ValueError(msg)
        self._learn(info)
        # Who is registered holds the watermark, also if none of its records is ever stored.
        await asyncio.to_thread(self._log.check)
        await self._member.calls.register(None)
        await self.cover_ends()

    def start(self) -> None:
        """Start to poll, to send notes and beats, and to note by a strategy."""
        self._member.start(self._poll)
        self._member.start_notes(self._deliveries.note_by_strategy, self._take, self._report)
        self._member.start_beats(waits=lambda: len(self._member.noter.notes) > 0)
        self.wake()

    def wake(self) -> None:
        """Wake the tasks that send notes and that poll for acknowledgements."""
        self._member.notes_ready.set()
        self._polls.set()

    async def cover_ends(self) -> None:
        """Let the next note cover all that is in the log by now."""
        # Whoever wants it again meanwhile is not satisfied by what is read now.
        self._deliveries.wants_ends = False
        try:
            ends = await asyncio.to_thread(self._log.ends)
        except BaseException:
            self._deliveries.wants_ends = True
            raise
        self._deliveries.cover(ends)

    async def settle(self) -> None:
        """Wait until every note is accepted whose records are stored, or nothing more will be."""
        self.wake()
        noter, deliveries = self._member.noter, self._deliveries
        await self._member.until(lambda: noter.failure is not None or not deliveries.has_ready)

    async def _poll(self) -> None:
        while True:
            await self._polls.wait()
            self._polls.clear()
            while self._deliveries.is_polled_for:
                await asyncio.sleep(_POLL_S)
                await self._log.poll()

    async def _take(self) -> Noted:
        if self._deliveries.wants_ends and self._deliveries.has_ready:
            try:
                await self.cover_ends()
            except TidegaugeError as error:
                if not self._log.is_away(error):
                    raise
                name = self._member.calls.name
                _log.warning("notes of %s wait for the log: %s", name, error)
                await asyncio.sleep(_AGAIN_S)
                self._member.notes_ready.set()
        return self._deliveries.send_notes(_NOTES_AT_ONCE)

    async def _report(self, notes: Noted) -> None:
        await self._make_room({one for _, position in notes for one in position})
        await self._member.calls.note_times(notes)

    async def _make_room(self, partitions: set[int]) -> None:
        """Let the stream have as many partitions as the log has, if that is allowed."""
        if partitions <= self._partitions:
            return
        info = await self._member.calls.describe()
        self._learn(info)
        known = {one.number for one in info.topology.segments}
        most = info.config.max_segments or info.config.segments
        if (needed := len(known | partitions)) > most:
            with suppress(ForbiddenError):  # the report is refused then, and names the cure
                await self._member.calls.configure(max_segments=needed)
        self._partitions |= partitions

    def _learn(self, info: StreamInfo) -> None:
        self._partitions |= {one.number for one in info.topology.segments}
