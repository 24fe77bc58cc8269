"""Readers that share the segments of one or more streams."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar, Unpack

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
from tidegauge.wire.groups import (
    ReaderJoined,
    ReaderPosition,
    ReaderStanding,
    by_stream,
)
from tidegauge.wire.streams import StreamInfo, Tail

_T = TypeVar("_T")
_BEYOND_ALL = 2**63 - 1
"""An offset that no segment gets to."""


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
        self._tails: dict[str, Tail] = {}
        """How far each of them went when it was last looked at."""
        self._owned: dict[SegmentRef, int] = {}
        """Its segments, and what it has confirmed of them."""
        self._ends: dict[SegmentRef, int] = {}
        """Sealed lengths, of those of its segments that are sealed."""
        self._returned: dict[SegmentRef, int] = {}
        self._is_settled = False
        """Whether it owned its share, and knew all segments, when it last looked."""
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

        While the group stays as it is, this costs one round trip: what was returned before is
        confirmed while events, or news of them, are fetched.

        Parameters
        ----------
        wait_ms
            How long to wait at the tail.
        limit
            At most so many events.

        Raises
        ------
        ReaderFencedError
            If another process took the name, or this one was taken offline: it learns that when
            it confirms, or by its heartbeat.
        TruncatedError
            If events that were to be read next were dropped. The reader goes on at the first
            there are: call it again.
        """
        await self.open()
        clock = asyncio.get_running_loop().time
        ends = clock() + wait_ms / 1_000
        await self._balance_if_needed()
        growing, has_news = self._growing(), True
        # A seal is news, too: to whoever iterates until the end.
        while has_news and growing == self._growing() and not self._readable():
            left_ms = max(0, int((ends - clock()) * 1_000))
            has_news = await self._confirm_during(self._wait(wait_ms=left_ms))
            await self._balance_if_needed()
        return await self._fetch(limit=limit)

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

    async def get_time_window(self, stream: str | None = None) -> TimeWindow:
        """Find the time window of the group in a stream; left out, in all of its streams."""
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

    async def _balance_if_needed(self) -> None:
        """Look at the group where there may be segments to complete, release or acquire.

        Raises what stopped the heartbeat, if something did.
        """
        if self._heartbeat is not None:
            self._heartbeat.raise_failure()
        changed = (
            (tail.topology_revision, tail.final) != (info.topology.revision, info.final)
            for tail, info in zip(self._tails.values(), self._streams.values(), strict=True)
        )
        is_read = (self._offset(ref) == end for ref, end in self._ends.items())
        is_told = self._heartbeat is None or self._heartbeat.unbalanced.is_set()
        if not self._is_settled or is_told or any(changed) or any(is_read):
            await self._confirm_and_balance()

    def _growing(self) -> set[str]:
        """Name the streams that are not sealed yet."""
        return {stream for stream, tail in self._tails.items() if not tail.final}

    def _offset(self, ref: SegmentRef) -> int:
        return self._returned.get(ref, self._owned[ref])

    async def _confirm_during(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Confirm what was returned before, while something else is done.

        It is confirmed, too, if that fails: the events were handed out.
        """
        returned = dict(self._returned)
        done: _T | BaseException
        done, confirmed = await asyncio.gather(
            work, self._confirm(returned), return_exceptions=True
        )
        if isinstance(confirmed, BaseException):
            raise confirmed
        self._owned |= returned
        self._returned.clear()
        if isinstance(done, BaseException):
            raise done
        return done

    async def _confirm(self, offsets: groups.Offsets) -> None:
        if offsets and self._heartbeat is not None:
            report = ReaderPosition(epoch=self._epoch or 0, position=by_stream(offsets))
            path = f"/readers/{self.name}/position"
            self._heartbeat.note(
                await self.group.call("POST", path, ReaderStanding, body=report)
            )

    async def _confirm_and_balance(self) -> None:
        """Confirm what was returned before, complete what is read, and take a fair share."""
        self._is_settled = False  # a look that is cut short is made again
        if self._heartbeat is not None:
            self._heartbeat.unbalanced.clear()  # before the look, for what is told meanwhile
        self._streams = {
            stream: await client.describe() for stream, client in sorted(self._clients.items())
        }
        self._tails = {stream: _tail_of(info) for stream, info in self._streams.items()}
        topologies = {
            stream: info.topology.to_topology() for stream, info in self._streams.items()
        }
        state = await self.group.change(partial(self._step, topologies=topologies))
        self._returned.clear()
        epoch = self._epoch or 0
        self._owned = dict(state.readers[self.name].owned)
        lengths = {
            ref: topologies[ref.stream][ref.segment].sealed_length for ref in self._owned
        }
        self._ends = {ref: length for ref, length in lengths.items() if length is not None}
        self._is_settled = groups.has_its_share(state, self.name, epoch)
        self._turn = deque(ref for ref in self._turn if ref in self._owned)
        self._turn.extend(ref for ref in sorted(self._owned) if ref not in self._turn)

    def _step(self, state: GroupState, topologies: Mapping[str, Topology]) -> GroupState:
        epoch = self._epoch or 0
        owned = state.readers[self.name].owned if self.name in state.readers else {}
        # The race: it completed or released one, and was not told; then that is confirmed, too.
        returned = {ref: offset for ref, offset in self._returned.items() if ref in owned}
        state = groups.advance(state, self.name, epoch, returned)
        for ref, offset in dict(state.readers[self.name].owned).items():
            topology = topologies[ref.stream]
            if offset == topology[ref.segment].sealed_length:
                state = groups.complete(state, self.name, epoch, ref, topology)
        most = groups.share(state, self.name)
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

    def _readable(self) -> list[SegmentRef]:
        """List the segments with events beyond where the reader stands, in turn."""
        tails = self._tails
        return [
            ref
            for ref in self._turn
            if self._offset(ref) < tails[ref.stream].tail.get(ref.segment, 0)
        ]

    async def _fetch(self, *, limit: int) -> list[Event]:
        """Fetch from one of the readable segments: in turn, so that none waits for a busy one."""
        readable = self._readable()
        if not readable:
            return []
        ref = readable[0]
        self._turn.rotate(-1 - self._turn.index(ref))
        start, tail = self._offset(ref), self._tails[ref.stream].tail[ref.segment]
        fetch = self._clients[ref.stream].fetch(ref.segment, start, min(tail, start + limit))
        try:
            found = await self._confirm_during(fetch)
        except TruncatedError:
            await self._skip_truncated(ref.stream)
            raise
        if found:
            self._returned[ref] = found[-1].end_offset
        return [event for events in found for event in _rows(ref, events)]

    async def _skip_truncated(self, stream: str) -> None:
        """Go on where a stream begins, in all that the reader owns of it or has to take for that."""
        info = await self._clients[stream].describe()
        self._is_settled = False
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

    async def _wait(self, *, wait_ms: int) -> bool:
        """Wait on all streams at once, until the first has news, or segments are shared anew.

        False if no news came.
        """
        growing = sorted({ref.stream for ref in self._owned} & self._growing())
        if self._heartbeat is None or (self._owned and not growing and self._is_settled):
            return False  # what is sealed has no news
        begin = asyncio.create_task
        waits = [begin(self._news(one, wait_ms=wait_ms)) for one in growing]
        waits.append(begin(self._heartbeat.unbalanced.wait()))
        timeout = None if growing else wait_ms / 1_000
        try:
            done, _ = await asyncio.wait(
                waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED
            )
            return any(one.result() for one in done)
        finally:
            for one in waits:
                one.cancel()
            await asyncio.gather(*waits, return_exceptions=True)

    async def _news(self, stream: str, *, wait_ms: int) -> bool:
        """Wait for events of its own, new segments or the seal of a stream; False if none came.

        To a reader, marks are no news, nor are events of segments that others own.
        """
        clock = asyncio.get_running_loop().time
        ends, known = clock() + wait_ms / 1_000, self._tails[stream]
        own = {ref.segment for ref in self._owned if ref.stream == stream}
        after = {one: at if one in own else _BEYOND_ALL for one, at in known.tail.items()}
        while True:
            left_ms = max(0, int((ends - clock()) * 1_000))
            revision = self._tails[stream].revision
            tail = self._tails[stream] = await self._clients[stream].tail(
                after=after, revision=revision, wait_ms=left_ms
            )
            is_new = tail.topology_revision != known.topology_revision or tail.final
            if is_new or any(tail.tail[one] > known.tail[one] for one in own):
                return True
            if tail.revision == revision or not left_ms:
                return False

    async def _is_done(self) -> bool:
        """Whether every stream is sealed and everything is read by somebody."""
        state, _ = await self.group.state()
        if state.unassigned or any(one.owned for one in state.readers.values()):
            return False
        return all([(await client.tail()).final for client in self._clients.values()])


def _tail_of(info: StreamInfo) -> Tail:
    """Say what a description says of the tail."""
    return Tail(
        stream_id=info.stream_id,
        watermark=info.watermark,
        final=info.final,
        tail=info.tail or {},
        first_cut=info.first_cut or {},
        topology_revision=info.topology.revision,
        revision=info.revision,
    )


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
