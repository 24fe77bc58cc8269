"""The background work of a writer: sending batches and notes, and stopping when it fails."""

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from functools import partial

from tidegauge.errors import ReportRefusedError, SegmentSealedError, StreamSealedError
from tidegauge.topology import Topology
from tidegauge.wire.streams import SegmentInfo
from writer_client._errors import EventsNotStoredError
from writer_client._events import EventBatch, encode_events
from writer_client._membership import Membership, Noted, Work
from writer_client._outbox import Outbox

_BATCH_EVENTS = 65_536  # as many as a chunk of the log holds
_NOTES_AT_ONCE = 500


class Sending:
    """Tasks of a writer: one that routes, one for each segment, and those of any member."""

    def __init__(self, member: Membership, outbox: Outbox, linger_s: float) -> None:
        self._member = member
        self._calls = member.calls
        self._outbox = outbox
        self._linger_s = linger_s
        self._something = asyncio.Event()
        self._urgent = asyncio.Event()
        self._senders: dict[int, asyncio.Event] = {}
        member.fail = partial(self._fail, stuck=False)

    def start(self) -> None:
        """Start to send notes and beats, batches when there are any, and to note by a strategy."""
        self._start_sending(self._route)
        self._member.start_notes(self._note_by_strategy, self._take, waits=False)
        self._member.start_beats(waits=lambda: self._outbox.unstored > 0)
        self.wake(urgent=True)

    def wake(self, *, urgent: bool) -> None:
        """Let what was written be sent, after a while or at once, and notes that are ready."""
        self._something.set()
        if urgent:
            self._urgent.set()
        self._member.notes_ready.set()

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
                self._start_sending(send)
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
        """Learn what continues a segment: the refusal lists it, unless more has been scaled before."""
        after = [SegmentInfo.model_validate(one).to_segment() for one in sealed.continuation]
        try:
            return self._outbox.topology.updated(after, sealed.topology_revision)
        except ValueError:  # one of them continues a segment that is not known here
            return (await self._calls.describe()).topology.to_topology()

    def _acknowledge(self, batch: EventBatch, next_offset: int) -> None:
        self._wake_senders(self._outbox.acknowledge(batch, next_offset))
        self._member.notes_ready.set()
        self._member.go_on()

    async def _take(self) -> Noted:
        return self._outbox.send_notes(_NOTES_AT_ONCE)

    def _note_by_strategy(self) -> None:
        if self._outbox.note_by_strategy():
            self.wake(urgent=True)

    def _start_sending(self, work: Work) -> None:
        self._member.start(work, partial(self._fail, stuck=True))

    def _fail(self, error: Exception, *, stuck: bool) -> None:
        """Stop the writer; stuck, what is written already is not stored either."""
        unstored = self._outbox.unstored
        if not isinstance(error, ReportRefusedError):
            reason, notes = error, len(self._outbox.noter.notes)
            error = EventsNotStoredError(unstored, notes, reason)
            error.__cause__ = reason
        elif stuck:
            error.add_note(f"{unstored} events are not stored")
        self._outbox.fail(error, stuck=stuck)
