"""The background work of a writer: sending batches and notes, and stopping when it fails."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from tidegauge.errors import ReportRefusedError, SegmentSealedError, StreamSealedError
from tidegauge.topology import Topology
from tidegauge.wire.streams import SegmentInfo
from writer_client._beats import beat_on
from writer_client._client import WriterCalls
from writer_client._errors import EventsNotStoredError
from writer_client._events import EventBatch, encode_events
from writer_client._outbox import Outbox

_BATCH_EVENTS = 65_536  # as many as a chunk of the log holds
_NOTES_AT_ONCE = 500

# Called by its task: a coroutine whose task ends before it begins would never be awaited.
_Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Sending:
    """Tasks on one event loop: one that routes, one for each segment, for the notes, for beats."""

    def __init__(self, calls: WriterCalls, outbox: Outbox, linger_s: float) -> None:
        self._calls = calls
        self._outbox = outbox
        self._linger_s = linger_s
        self._tasks: list[asyncio.Task[None]] = []
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        self._senders: dict[int, asyncio.Event] = {}
        self._notes_ready = asyncio.Event()
        self._progress = asyncio.Event()

    def start(self, *, note_interval_s: float | None, always_beats: bool) -> None:
        """Start to send notes and beats, batches when there are any, and to note by a strategy."""
        self._start(self._route, sends_events=True)
        self._start(self._report, sends_events=False)
        beat = partial(
            beat_on,
            self._calls,
            wanted=lambda: (
                self._outbox.failure is None
                and (self._outbox.unstored > 0 or (always_beats and not self._outbox.is_idle))
            ),
            # Only who asked for it is bound by a time that it has not noted.
            otherwise=lambda: (
                self._outbox.promise(self._calls.told_time) if always_beats else None
            ),
        )
        self._start(beat, sends_events=False)
        if note_interval_s is not None:
            self._start(partial(self._note_by_strategy, note_interval_s), sends_events=False)
        self.wake(urgent=True)

    def wake(self, *, urgent: bool) -> None:
        """Let what was written be sent, after a while or at once, and notes that are ready."""
        self._something.set()
        if urgent:
            self._urgent.set()
        self._notes_ready.set()

    async def until(self, reached: Callable[[], bool]) -> None:
        """Wait until something holds, looking whenever anything was stored or failed."""
        while not reached():
            self._progress.clear()
            await self._progress.wait()

    async def stop(self) -> None:
        """End all tasks."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _route(self) -> None:
        """Let events linger, then route them to their segments."""
        while True:
            await self._something.wait()
            self._something.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._linger_s):
                    await self._urgent.wait()
            self._urgent.clear()
            self._wake_senders(self._outbox.route())

    def _wake_senders(self, segments: Iterable[int]) -> None:
        for segment in segments:
            if segment not in self._senders:
                self._senders[segment] = asyncio.Event()
                send = partial(self._send_segment, segment, self._senders[segment])
                self._start(send, sends_events=True)
            self._senders[segment].set()

    async def _send_segment(self, segment: int, something: asyncio.Event) -> None:
        """Send the batches of a segment, one after the other, so that they keep their order."""
        sequence = 1
        while True:
            await something.wait()
            something.clear()
            while batch := self._outbox.take(segment, max_events=_BATCH_EVENTS):
                sequence = await self._send(batch, sequence)

    async def _send(self, batch: EventBatch, sequence: int) -> int:
        """Store a batch, or route it anew; return the sequence number of the next one."""
        try:
            body = encode_events(batch.events)
            appended = await self._calls.append(batch.segment, body, sequence)
        except SegmentSealedError as sealed:
            return await self._send_on(batch, sequence, sealed)
        self._acknowledge(batch, appended.next_offset)
        return sequence + 1

    async def _send_on(
        self, batch: EventBatch, sequence: int, sealed: SegmentSealedError
    ) -> int:
        topology = await self._learn(sealed)
        if not topology.unsealed:
            raise StreamSealedError(str(self._calls.stream)) from sealed
        length = topology[batch.segment].sealed_length
        if sealed.last_sequence >= sequence and length is not None:
            self._outbox.follow(topology)
            self._acknowledge(batch, length)
            return sequence + 1
        self._wake_senders(self._outbox.reroute(batch, topology))
        return sequence

    async def _learn(self, sealed: SegmentSealedError) -> Topology:
        """Learn what continues a segment: the refusal tells, unless more has been scaled before."""
        told = [SegmentInfo.model_validate(one).to_segment() for one in sealed.continuation]
        try:
            return self._outbox.topology.updated(told, sealed.topology_revision)
        except ValueError:  # one of them continues a segment that is not known here
            return (await self._calls.describe()).topology.to_topology()

    def _acknowledge(self, batch: EventBatch, next_offset: int) -> None:
        self._wake_senders(self._outbox.acknowledge(batch, next_offset))
        self._notes_ready.set()
        self._progress.set()

    async def _report(self) -> None:
        while True:
            await self._notes_ready.wait()
            self._notes_ready.clear()
            while notes := self._outbox.send_notes(_NOTES_AT_ONCE):
                if len(notes) == 1:
                    await self._calls.note_time(*notes[0])
                else:
                    await self._calls.note_times(notes)
                self._outbox.accept_notes()
                self._progress.set()

    async def _note_by_strategy(self, interval_s: float) -> None:
        while True:
            if self._outbox.note_by_strategy():
                self.wake(urgent=True)
            await asyncio.sleep(interval_s)

    def _start(self, work: _Work, *, sends_events: bool) -> None:
        guarded = self._guarded(work, sends_events=sends_events)
        self._tasks.append(asyncio.get_running_loop().create_task(guarded))

    async def _guarded(self, work: _Work, *, sends_events: bool) -> None:
        """Stop the writer when its background work fails; its callers are told."""
        try:
            await work()
        except ReportRefusedError as error:
            if sends_events:
                error.add_note(f"{self._outbox.unstored} events are not stored")
            self._outbox.fail(error, stuck=sends_events)
        except Exception as error:  # noqa: BLE001 (raised again by every later call)
            failure = EventsNotStoredError(
                self._outbox.unstored, self._outbox.unaccepted, error
            )
            failure.__cause__ = error
            self._outbox.fail(failure, stuck=sends_events)
        finally:
            self._progress.set()
