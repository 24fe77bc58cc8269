"""The background work of a producer to a log of one's own: polling, notes and beats."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.transport import is_transient
from tidegauge.errors import ForbiddenError, TidegaugeError
from tidegauge.topology import Position
from tidegauge.wire.streams import StreamInfo
from writer_client._beats import beat_on
from writer_client._client import WriterCalls
from writer_client._deliveries import Deliveries

_log = logging.getLogger("tidegauge.kafka")
# Called by its task: a coroutine whose task ends before it begins would never be awaited.
_Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]
_NOTES_AT_ONCE = 500
_POLL_S = 0.01
"""So long it is left to the caller to poll: callbacks in two threads cost more than the rest of them."""
_AGAIN_S = 1
"""A log that refuses, and so answers at once, is asked again after this long."""
_PAUSE_S = 0.02
"""Between two reports, each of which costs milliseconds: notes that come faster go together."""


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
    """Tasks on one event loop: one that polls the log, one for the notes, one for beats, one for a strategy."""

    def __init__(self, calls: WriterCalls, deliveries: Deliveries, log: Log) -> None:
        self._calls = calls
        self._stream = StreamCalls(calls.transport, calls.stream)
        self._deliveries = deliveries
        self._log = log
        self._tasks: list[asyncio.Task[None]] = []
        self._ready = asyncio.Event()
        self._polls = asyncio.Event()
        self._progress = asyncio.Event()
        self._partitions: set[int] = set()

    async def open(self) -> StreamInfo:
        """Register, and learn how far the log reaches, which the first note covers."""
        info = await self._calls.describe()
        if info.config.log != "external":
            msg = f"{info.stream} has an embedded log: use a Writer, or a stream with log=external"
            raise ValueError(msg)
        self._stream.stream_id = info.stream_id
        self._learn(info)
        # Who is registered holds the watermark, also if none of its records is ever stored.
        await asyncio.to_thread(self._log.check)
        await self._calls.register(None)
        await self.cover_ends()
        return info

    def start(self, *, note_interval_s: float | None, always_beats: bool) -> None:
        """Start to poll, to send notes and beats, and to note by a strategy."""
        deliveries, calls = self._deliveries, self._calls
        self._start(self._poll)
        self._start(self._send)
        self._start(
            partial(
                beat_on,
                calls,
                wanted=lambda: (
                    not deliveries.is_stopped
                    and (deliveries.is_waited_for or (always_beats and not deliveries.is_idle))
                ),
                # Only who asked for it is bound by a time that it has not noted.
                otherwise=lambda: deliveries.promise(calls.told_time) if always_beats else None,
            )
        )
        if note_interval_s is not None:
            self._start(partial(self._note_by_strategy, note_interval_s))
        self.wake()

    def wake(self) -> None:
        """Look for notes to send, and for acknowledgements to wait for."""
        self._ready.set()
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
        while self._deliveries.has_due and not self._deliveries.is_stopped:
            self._progress.clear()
            await self._progress.wait()

    async def stop(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _poll(self) -> None:
        while True:
            await self._polls.wait()
            self._polls.clear()
            while self._deliveries.is_polled_for:
                await asyncio.sleep(_POLL_S)
                await self._log.poll()

    async def _send(self) -> None:
        while True:
            await self._ready.wait()
            self._ready.clear()
            while await self._send_due():
                self._progress.set()
                await asyncio.sleep(_PAUSE_S)

    async def _send_due(self) -> bool:
        """Send notes that are due; tell whether there were any."""
        if self._deliveries.wants_ends and self._deliveries.has_due:
            await self._cover_ends_soon()
        notes = self._deliveries.due(_NOTES_AT_ONCE)
        if not notes:
            return False
        try:
            await self._make_room({one for _, position in notes for one in position})
            if len(notes) == 1:
                await self._calls.note_time(*notes[0])
            else:
                await self._calls.note_times(notes)
        except TidegaugeError as error:
            if not is_transient(error):  # the others are told by the transport
                raise
        else:
            self._deliveries.accept()
        return True

    async def _cover_ends_soon(self) -> None:
        try:
            await self.cover_ends()
        except TidegaugeError as error:
            if not self._log.is_away(error):
                raise
            _log.warning("notes of %s wait for the log: %s", self._calls.name, error)
            await asyncio.sleep(_AGAIN_S)
            self._ready.set()

    async def _make_room(self, partitions: set[int]) -> None:
        """Let the stream have as many partitions as the log has, if it may be told so."""
        if partitions <= self._partitions:
            return
        info = await self._stream.describe()
        self._learn(info)
        known = {one.number for one in info.topology.segments}
        most = info.config.max_segments or info.config.segments
        if (needed := len(known | partitions)) > most:
            with suppress(ForbiddenError):  # the report is refused then, and tells the cure
                await self._stream.configure(max_segments=needed)
        self._partitions |= partitions

    def _learn(self, info: StreamInfo) -> None:
        self._partitions |= {one.number for one in info.topology.segments}

    async def _note_by_strategy(self, interval_s: float) -> None:
        while True:
            self._deliveries.note_by_strategy()
            await asyncio.sleep(interval_s)

    def _start(self, work: _Work) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(self._guarded(work)))

    async def _guarded(self, work: _Work) -> None:
        """Stop the producer when its background work fails; its caller is told."""
        try:
            await work()
        except Exception as error:  # noqa: BLE001 (raised again by every later call)
            self._deliveries.stop(error)
        finally:
            self._progress.set()
