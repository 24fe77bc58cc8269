"""Readers that share the segments of one or more streams."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import NamedTuple, Unpack

from reader_client._events import Events
from reader_client._group import AsyncReaderGroup, Heartbeat
from reader_client._stream import AsyncStreamClient, ReaderOptions
from tidegauge import groups
from tidegauge.client.blocks import AsyncOpening, Opening
from tidegauge.client.sync import LoopThread, SyncFace, blocking
from tidegauge.errors import ReaderFencedError, TruncatedError
from tidegauge.groups import GroupState, SegmentRef
from tidegauge.names import check_name
from tidegauge.topology import Position, Topology
from tidegauge.windows import TimeWindow
from tidegauge.wire.groups import ReaderJoined
from tidegauge.wire.streams import StreamInfo


class Event(NamedTuple):
    """One event that a reader read.

    Attributes
    ----------
    stream, segment, offset
        Where it lies.
    key, event_time, value
        What it is; ``event_time`` in ms, or None.
    append_time
        Wall clock of its append, ms; None if it was appended before that was stored.
    writer
        Who appended it; None if nobody was named, or that was not stored then.
    """

    stream: str
    segment: int
    offset: int
    key: str
    event_time: int | None
    value: bytes
    append_time: int | None = None
    writer: str | None = None


class AsyncReader(AsyncOpening):
    """One reader of a group.

    Segments are shared out among the readers; one without segments is normal. What the latest
    `read_next` returned counts as read only with the next one, or a `checkpoint`: events are
    delivered at least once.

    Parameters
    ----------
    url
        Of the service.
    group
        ``scope/group``, which exists.
    name
        Of this reader: stable over restarts. Joining under a name that is there takes it over.
    token : str, optional
        Bearer token, if the service wants one.
    retry_for : timedelta, default 60 s
        How long a request is repeated while the service is away.
    """

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self.group = AsyncReaderGroup(url, group, **options)
        self.name = check_name(name)
        self._epoch: int | None = None
        self._clients: dict[str, AsyncStreamClient] = {}
        self._streams: dict[str, StreamInfo] = {}
        """As they were when the reader last took its share."""
        self._returned: dict[SegmentRef, int] = {}
        self._turn: deque[SegmentRef] = deque()
        """What it owns, beginning with what was not looked at for the longest."""
        self._heartbeat: Heartbeat | None = None

    @property
    def epoch(self) -> int | None:
        """Of this process, under its name; None before it joined."""
        return self._epoch

    async def open(self) -> None:
        """Join the group. `read_next` does it too."""
        if self._epoch is not None:
            return
        info = await self.group.describe()
        self._clients = {
            stream: self.group.stream_client(stream, info.stream_ids[stream])
            for stream in info.streams
        }
        joined = await self.group.call("POST", f"/readers/{self.name}", ReaderJoined)
        self._epoch = joined.epoch
        self._heartbeat = Heartbeat(
            self.group, self.name, joined.epoch, every_ms=info.heartbeat_ms
        )

    async def read_next(self, *, wait_ms: int = 1_000, limit: int = 1_000) -> list[Event]:
        """Read the next events, of one segment and in order; none if none came in time.

        Parameters
        ----------
        wait_ms
            How long to wait at the tail.
        limit
            At most so many events.

        Raises
        ------
        ReaderFencedError
            If another process took the name, or this one was taken offline.
        TruncatedError
            If events that were to be read next were dropped. The reader goes on at the first
            there are: call it again.
        """
        await self.open()
        if self._heartbeat is not None:
            self._heartbeat.raise_failure()
        owned = self._own(await self._confirm_and_balance())
        tails: dict[str, Position] = {
            stream: info.tail or {} for stream, info in self._streams.items()
        }
        found = await self._fetch(owned, tails, limit=limit)
        if found or wait_ms == 0:
            return found
        tails |= await self._wait({ref.stream for ref in owned}, wait_ms=wait_ms)
        return await self._fetch(owned, tails, limit=limit)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Read event after event; waits at the tail, and ends with sealed streams.

        Only events that were handed out count as read, so that whoever stops in between misses
        none. What another reader took over meanwhile is left to it.
        """
        while True:
            events = await self.read_next()
            self._returned.clear()
            for event in events:
                ref = SegmentRef(event.stream, event.segment)
                if ref not in self._turn:
                    break
                self._returned[ref] = event.offset + 1
                yield event
            if not events and await self._is_done():
                return

    async def confirm(self, positions: Mapping[str, Position]) -> None:
        """Own exactly these segments, and confirm that everything before the offsets was read.

        For logs that the application reads by itself, and that assign segments to readers: give
        all that are assigned to this one, also after each rebalance. What is left out goes back
        to the group. Not to be mixed with `read_next`, which shares segments out by itself.

        Parameters
        ----------
        positions
            By ``scope/stream``: for each segment the next offset to read.

        Raises
        ------
        InvalidTransitionError
            If another reader owns one of them until it confirms without it, or an offset is
            below what was confirmed.
        ReaderFencedError
            If another process took the name, or this one was taken offline.

        Examples
        --------
        >>> reader = AsyncReader("http://127.0.0.1:8470", "shop/billing", "pod-7")
        >>> await reader.confirm({"shop/orders": {0: 1_200, 3: 47}})  # doctest: +SKIP
        """
        await self.open()
        if self._heartbeat is not None:
            self._heartbeat.raise_failure()
        topologies = {name: await client.topology() for name, client in self._clients.items()}
        offsets = {
            SegmentRef(stream, segment): offset
            for stream, position in positions.items()
            for segment, offset in position.items()
        }
        await self.group.change(
            partial(
                groups.confirm,
                reader=self.name,
                epoch=self._epoch or 0,
                topologies=topologies,
                offsets=offsets,
            )
        )

    async def checkpoint(self, name: str) -> dict[str, Position]:
        """Confirm what was read, and remember where the whole group stands."""
        await self.open()
        await self._confirm_and_balance()
        return await self.group.checkpoint(name)

    async def get_time_window(self, stream: str) -> TimeWindow:
        """Find the time window of the group in a stream."""
        return await self.group.get_time_window(stream)

    async def close(self) -> None:
        """Go offline at the confirmed position, so that others read on from there.

        Raises
        ------
        ReaderFencedError
            If another process took the name, or this one was taken offline; it is closed then.
        """
        try:
            if self._heartbeat is not None:
                self._heartbeat.raise_failure()
                await self._confirm_and_balance()
                await self.group.reader_offline(self.name, epoch=self._epoch or 0)
        finally:
            await self._disconnect()

    async def _disconnect(self) -> None:
        if self._heartbeat is not None:
            await self._heartbeat.stop()
        self._epoch = self._heartbeat = None
        for client in self._clients.values():
            await client.aclose()
        await self.group.aclose()

    async def __aexit__(self, *raised: object) -> None:
        _, error, _ = raised
        if isinstance(error, ReaderFencedError):
            await self._disconnect()  # there is nothing left to give back
            return
        if error is not None:
            self._returned.clear()
        await self.close()

    async def _confirm_and_balance(self) -> GroupState:
        """Confirm what was returned before, complete what is read, and take a fair share."""
        self._streams = {
            stream: await client.describe() for stream, client in sorted(self._clients.items())
        }
        topologies = {
            stream: info.topology.to_topology() for stream, info in self._streams.items()
        }
        state = await self.group.change(partial(self._step, topologies=topologies))
        self._returned.clear()
        owned = self._own(state)
        self._turn = deque(ref for ref in self._turn if ref in owned)
        self._turn.extend(ref for ref in sorted(owned) if ref not in self._turn)
        return state

    def _step(self, state: GroupState, topologies: Mapping[str, Topology]) -> GroupState:
        epoch = self._epoch or 0
        state = groups.advance(state, self.name, epoch, self._returned)
        for ref, offset in dict(state.readers[self.name].owned).items():
            topology = topologies[ref.stream]
            if offset == topology[ref.segment].sealed_length:
                state = groups.complete(state, self.name, epoch, ref, topology)
        most = groups.share(state)
        while len(state.readers[self.name].owned) > most:
            ref = max(state.readers[self.name].owned)
            state = groups.release(state, self.name, epoch, ref)
        # A segment that opened after the topologies were read is taken with the next step.
        free = (
            ref for ref in sorted(state.unassigned) if ref.segment in topologies[ref.stream]
        )
        for ref in islice(free, max(0, most - len(state.readers[self.name].owned))):
            state = groups.acquire(state, self.name, epoch, ref)
        return state

    def _own(self, state: GroupState) -> dict[SegmentRef, int]:
        return dict(state.readers[self.name].owned)

    def _in_turn(self) -> Iterator[SegmentRef]:
        """Take the segments in turn, so that none waits for a busy one."""
        for _ in range(len(self._turn)):
            self._turn.rotate(-1)
            yield self._turn[-1]

    async def _fetch(
        self, owned: Mapping[SegmentRef, int], tails: Mapping[str, Position], *, limit: int
    ) -> list[Event]:
        """Fetch from the first segment, in turn, that goes on beyond where the reader stands."""
        for ref in self._in_turn():
            start, tail = owned[ref], tails[ref.stream].get(ref.segment, 0)
            if start < tail:
                client = self._clients[ref.stream]
                try:
                    found = await client.fetch(ref.segment, start, min(tail, start + limit))
                except TruncatedError:
                    await self._skip_truncated(ref.stream)
                    raise
                if found:
                    self._returned[ref] = found[-1].end_offset
                    return [event for events in found for event in _rows(ref, events)]
        return []

    async def _skip_truncated(self, stream: str) -> None:
        """Go on where a stream begins, in all that the reader owns of it or has to take for that."""
        info = await self._clients[stream].describe()
        await self.group.change(
            partial(
                groups.skip_truncated,
                reader=self.name,
                epoch=self._epoch or 0,
                stream=stream,
                topology=info.topology.to_topology(),
                first=info.first_cut or {},
            )
        )

    async def _wait(self, streams: set[str], *, wait_ms: int) -> dict[str, Position]:
        """Wait on all of the streams at once, until the first has news; return where those end."""
        if not streams:
            await asyncio.sleep(wait_ms / 1_000)
        polls = {
            stream: asyncio.create_task(self._news(stream, wait_ms=wait_ms))
            for stream in streams
            if not self._streams[stream].final
        }
        if not polls:
            return {}
        try:
            await asyncio.wait(polls.values(), return_when=asyncio.FIRST_COMPLETED)
            return {stream: poll.result() for stream, poll in polls.items() if poll.done()}
        finally:
            for poll in polls.values():
                poll.cancel()
            await asyncio.gather(*polls.values(), return_exceptions=True)

    async def _news(self, stream: str, *, wait_ms: int) -> Position:
        """Wait for events, segments or the seal of a stream: to a reader, marks are no news."""
        known, clock = self._streams[stream], asyncio.get_running_loop().time
        revision, ends = known.revision, clock() + wait_ms / 1_000
        while True:
            left_ms = max(0, int((ends - clock()) * 1_000))
            tail = await self._clients[stream].tail(
                after=known.tail, revision=revision, wait_ms=left_ms
            )
            if tail.tail != known.tail or tail.final or tail.revision == revision:
                return tail.tail
            revision = tail.revision

    async def _is_done(self) -> bool:
        """Whether every stream is sealed and everything is read by somebody."""
        state, _ = await self.group.state()
        if state.unassigned or any(one.owned for one in state.readers.values()):
            return False
        return all([(await client.tail()).final for client in self._clients.values()])


def _rows(ref: SegmentRef, events: Events) -> Iterator[Event]:
    columns = (column.to_pylist() for column in events.batch.columns)
    for place, values in enumerate(zip(*columns, strict=True)):
        yield Event(ref.stream, ref.segment, events.first_offset + place, *values)


class Reader(SyncFace[AsyncReader], Opening):
    """The synchronous face of `AsyncReader`.

    Examples
    --------
    >>> with Reader("http://127.0.0.1:8470", "demo/billing", "worker-1") as reader:
    ...     for event in reader:
    ...         print(event.key, event.event_time)  # doctest: +SKIP
    """

    def __init__(
        self, url: str, group: str, name: str, **options: Unpack[ReaderOptions]
    ) -> None:
        self._thread = LoopThread(f"tidegauge-reader-{name}")
        self._core = AsyncReader(url, group, name, **options)

    @property
    def epoch(self) -> int | None:
        """Of this process, under its name; None before it joined."""
        return self._core.epoch

    open = blocking(AsyncReader.open)
    read_next = blocking(AsyncReader.read_next)
    confirm = blocking(AsyncReader.confirm)
    checkpoint = blocking(AsyncReader.checkpoint)
    get_time_window = blocking(AsyncReader.get_time_window)

    def __iter__(self) -> Iterator[Event]:
        """Read event after event; see `AsyncReader`."""
        events = aiter(self._core)
        while True:
            try:
                yield self._thread.run(_next(events))
            except StopAsyncIteration:
                return

    def close(self) -> None:
        """Go offline at the confirmed position."""
        self._thread.end(self._core.close)

    def __exit__(self, *raised: object) -> None:
        self._thread.end(lambda: self._core.__aexit__(*raised))


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)
