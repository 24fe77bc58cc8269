"""Reader groups: many readers that share the segments of one or more streams."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

from pydantic import BaseModel

from reader_client._stream import AsyncStreamClient, Events
from tidegauge import groups
from tidegauge.errors import PreconditionFailedError
from tidegauge.groups import GroupState, SegmentRef
from tidegauge.names import StreamName, check_name
from tidegauge.sync import LoopThread
from tidegauge.topology import Position, Topology
from tidegauge.transport import RETRY_FOR, Transport
from tidegauge.windows import TimeWindow
from tidegauge.wire.groups import (
    CreateGroup,
    GroupInfo,
    ReaderHeartbeat,
    ReaderJoined,
    StateDocument,
    TimeWindowInfo,
)
from tidegauge.wire.values import Answer

_A = TypeVar("_A", bound=BaseModel)
_T = TypeVar("_T")
Transition = Callable[[GroupState], GroupState]


class Event(NamedTuple):
    """One event that a reader read.

    Attributes
    ----------
    stream, segment, offset
        Where it lies.
    key, event_time, value
        What it is; ``event_time`` in ms, or None.
    """

    stream: str
    segment: int
    offset: int
    key: str
    event_time: int | None
    value: bytes


class AsyncReaderGroup:
    """A reader group, as operators and readers see it.

    Parameters
    ----------
    url
        Of the service.
    name
        ``scope/group``.
    token
        Bearer token, if the service wants one.
    retry_for
        How long a request is repeated while the service is away.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        token: str | None = None,
        retry_for: timedelta = RETRY_FOR,
    ) -> None:
        self.name = StreamName.parse(name)
        self.url = url
        self.token = token
        self.retry_for = retry_for
        self._transport = Transport(url, token=token, retry_for=retry_for)

    async def create(self, streams: list[str], **options: Any) -> GroupInfo:  # noqa: ANN401 (fields of CreateGroup)
        """Create the group; the same again changes nothing.

        Parameters
        ----------
        streams
            What it reads, ``scope/stream`` each.
        **options
            ``start`` (``earliest``, ``latest``), ``start_time``, ``start_cut``,
            ``heartbeat_ms``, ``dead_after_ms``.

        Raises
        ------
        GroupExistsError
            If it is there with other settings.
        """
        wanted = CreateGroup(streams=streams, **options)
        return await self.call("PUT", "", GroupInfo, body=wanted)

    async def describe(self) -> GroupInfo:
        """Describe the group and its shared state."""
        return await self.call("GET", "", GroupInfo)

    async def delete(self) -> None:
        """Delete the group; what it retained is free."""
        await self.call("DELETE", "", Answer)

    async def get_time_window(self, stream: str) -> TimeWindow:
        """Find the time window of the group in a stream: the same for all of its readers."""
        found = await self.call(
            "GET", "/time-window", TimeWindowInfo, params={"stream": stream}
        )
        return TimeWindow(found.lower, found.upper)

    async def position(self, stream: str) -> Position:
        """Find the joint position of the group in a stream."""
        return (await self.state())[0].position(stream)

    async def reader_offline(
        self, reader: str, position: Mapping[str, Position] | None = None
    ) -> None:
        """Take a reader offline; its segments go back where it had confirmed, or to a position.

        Raises
        ------
        UnknownReaderError
            If there is none.
        InvalidTransitionError
            If the position goes back before a segment whose successors were opened.
        """
        topologies = await self.topologies()
        back = {
            SegmentRef(stream, segment): offset
            for stream, offsets in (position or {}).items()
            for segment, offset in offsets.items()
        }
        await self.change(
            partial(groups.go_offline, reader=reader, topologies=topologies, position=back)
        )

    async def checkpoint(self, name: str) -> dict[str, Position]:
        """Remember where the group stands, and return it: a position to resume from exactly."""
        state = await self.change(partial(groups.checkpoint, name=name))
        streams = sorted({ref.stream for ref in state.checkpoints[name]})
        return {stream: state.position(stream) for stream in streams}

    async def state(self) -> tuple[GroupState, str]:
        """Read the shared state and its version."""
        info = await self.describe()
        return info.state.to_state(), f'"{info.revision}"'

    async def change(self, transition: Transition) -> GroupState:
        """Apply a transition to the newest state; who loses the race applies it again."""
        while True:
            state, version = await self.state()
            changed = transition(state)
            if changed == state:
                return state
            try:
                await self.call(
                    "PUT",
                    "/state",
                    StateDocument,
                    body=StateDocument.of(changed),
                    headers={"if-match": version},
                    retry=False,
                )
            except PreconditionFailedError:
                continue
            return changed

    async def topologies(self) -> dict[str, Topology]:
        """Read the topologies of the group's streams."""
        info = await self.describe()
        found = {}
        for stream in info.streams:
            client = self.stream_client(stream, info.stream_ids[stream])
            try:
                found[stream] = await client.topology()
            finally:
                await client.aclose()
        return found

    def stream_client(self, stream: str, stream_id: str) -> AsyncStreamClient:
        """Make a client to one of the group's streams."""
        return AsyncStreamClient(
            self.url, stream, token=self.token, stream_id=stream_id, retry_for=self.retry_for
        )

    async def call(  # noqa: PLR0913 (parts of a request)
        self,
        method: str,
        path: str,
        answer: type[_A],
        *,
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        retry: bool = True,
    ) -> _A:
        """Make a call of the group."""
        return await self._transport.request(
            method,
            f"/v1/reader-groups/{self.name}{path}",
            answer=answer,
            body=body,
            params=params,
            headers=headers,
            retry=retry,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()


class AsyncReader:
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
    token
        Bearer token, if the service wants one.
    retry_for
        How long a request is repeated while the service is away.
    """

    def __init__(
        self,
        url: str,
        group: str,
        name: str,
        *,
        token: str | None = None,
        retry_for: timedelta = RETRY_FOR,
    ) -> None:
        self.group = AsyncReaderGroup(url, group, token=token, retry_for=retry_for)
        self.name = check_name(name)
        self._epoch: int | None = None
        self._clients: dict[str, AsyncStreamClient] = {}
        self._returned: dict[SegmentRef, int] = {}
        self._turn: deque[SegmentRef] = deque()
        self._heartbeat: asyncio.Task[None] | None = None
        self._failure: BaseException | None = None

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
        self._heartbeat = asyncio.create_task(self._beat(info.heartbeat_ms / 1_000))

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
        """
        await self.open()
        if self._failure is not None:
            raise self._failure
        state = await self._confirm_and_balance()
        owned = self._own(state)
        for ref in self._in_turn(owned):
            found = await self._fetch(ref, owned[ref], limit=limit)
            if found:
                return self._return(ref, found)
        return await self._wait(owned, wait_ms=wait_ms, limit=limit)

    async def __aiter__(self) -> AsyncIterator[Event]:
        """Read event after event; waits at the tail, and ends with sealed streams."""
        while True:
            events = await self.read_next()
            for event in events:
                yield event
            if not events and await self._is_done():
                return

    async def checkpoint(self, name: str) -> dict[str, Position]:
        """Confirm what was read, and remember where the whole group stands."""
        await self.open()
        await self._confirm_and_balance()
        return await self.group.checkpoint(name)

    async def get_time_window(self, stream: str) -> TimeWindow:
        """Find the time window of the group in a stream."""
        return await self.group.get_time_window(stream)

    async def close(self) -> None:
        """Go offline at the confirmed position, so that others read on from there."""
        if self._heartbeat is not None:
            self._heartbeat.cancel()
            await asyncio.gather(self._heartbeat, return_exceptions=True)
        try:
            if self._epoch is not None and self._failure is None:
                await self._confirm_and_balance()
                await self.group.reader_offline(self.name)
        finally:
            self._epoch = None
            for client in self._clients.values():
                await client.aclose()
            await self.group.aclose()

    async def __aenter__(self) -> Self:
        try:
            await self.open()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self._returned.clear()
        await self.close()

    async def _confirm_and_balance(self) -> GroupState:
        """Confirm what was returned before, complete what is read, and take a fair share."""
        topologies = {stream: await self._topology(stream) for stream in sorted(self._clients)}
        state = await self.group.change(partial(self._step, topologies=topologies))
        self._returned.clear()
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
        while state.unassigned and len(state.readers[self.name].owned) < most:
            state = groups.acquire(state, self.name, epoch, min(state.unassigned))
        return state

    async def _topology(self, stream: str) -> Topology:
        return await self._clients[stream].topology()

    def _own(self, state: GroupState) -> dict[SegmentRef, int]:
        return dict(state.readers[self.name].owned)

    def _in_turn(self, owned: Mapping[SegmentRef, int]) -> Iterator[SegmentRef]:
        """Take the segments in turn, so that none waits for a busy one."""
        self._turn = deque(ref for ref in self._turn if ref in owned)
        self._turn.extend(ref for ref in sorted(owned) if ref not in self._turn)
        for _ in range(len(self._turn)):
            self._turn.rotate(-1)
            yield self._turn[-1]

    async def _fetch(self, ref: SegmentRef, start: int, *, limit: int) -> list[Events]:
        client = self._clients[ref.stream]
        tail = (await client.tail()).tail.get(ref.segment, 0)
        if start >= tail:
            return []
        return await client.fetch(ref.segment, start, min(tail, start + limit))

    def _return(self, ref: SegmentRef, found: list[Events]) -> list[Event]:
        self._returned[ref] = found[-1].end_offset
        return [event for events in found for event in _rows(ref, events)]

    async def _wait(
        self, owned: Mapping[SegmentRef, int], *, wait_ms: int, limit: int
    ) -> list[Event]:
        """Wait at the tail of one of the streams, and look once more."""
        if not owned:
            await asyncio.sleep(wait_ms / 1_000)
            return []
        stream = next(iter(owned)).stream
        known = await self._clients[stream].tail()
        if not known.final:
            await self._clients[stream].tail(
                after=known.tail, revision=known.revision, wait_ms=wait_ms
            )
        for ref in self._in_turn(owned):
            found = await self._fetch(ref, owned[ref], limit=limit)
            if found:
                return self._return(ref, found)
        return []

    async def _is_done(self) -> bool:
        """Whether every stream is sealed and everything is read by somebody."""
        state, _ = await self.group.state()
        if state.unassigned or any(one.owned for one in state.readers.values()):
            return False
        return all([(await client.tail()).final for client in self._clients.values()])

    async def _beat(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            beat = ReaderHeartbeat(epoch=self._epoch or 0)
            path = f"/readers/{self.name}/heartbeat"
            try:
                await self.group.call("POST", path, Answer, body=beat)
            except Exception as error:  # noqa: BLE001 (raised by the next call)
                self._failure = error
                return


def _rows(ref: SegmentRef, events: Events) -> Iterator[Event]:
    columns = (column.to_pylist() for column in events.batch.columns)
    for place, (key, time, value) in enumerate(zip(*columns, strict=True)):
        yield Event(ref.stream, ref.segment, events.first_offset + place, key, time, value)


class ReaderGroup:
    """The synchronous face of `AsyncReaderGroup`."""

    def __init__(self, url: str, name: str, **options: Any) -> None:  # noqa: ANN401 (AsyncReaderGroup's)
        self._thread = LoopThread(f"tidegauge-group-{name}")
        self._core = AsyncReaderGroup(url, name, **options)

    def create(self, streams: list[str], **options: Any) -> GroupInfo:  # noqa: ANN401 (fields of CreateGroup)
        """Create the group; see `AsyncReaderGroup.create`."""
        return self._run(self._core.create(streams, **options))

    def describe(self) -> GroupInfo:
        """Describe the group and its shared state."""
        return self._run(self._core.describe())

    def delete(self) -> None:
        """Delete the group."""
        self._run(self._core.delete())

    def get_time_window(self, stream: str) -> TimeWindow:
        """Find the time window of the group in a stream."""
        return self._run(self._core.get_time_window(stream))

    def position(self, stream: str) -> Position:
        """Find the joint position of the group in a stream."""
        return self._run(self._core.position(stream))

    def reader_offline(
        self, reader: str, position: Mapping[str, Position] | None = None
    ) -> None:
        """Take a reader offline; see `AsyncReaderGroup.reader_offline`."""
        self._run(self._core.reader_offline(reader, position))

    def checkpoint(self, name: str) -> dict[str, Position]:
        """Remember where the group stands."""
        return self._run(self._core.checkpoint(name))

    def close(self) -> None:
        """Close the connections."""
        try:
            self._run(self._core.aclose())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return self._thread.run(work)


class Reader:
    """The synchronous face of `AsyncReader`.

    Examples
    --------
    >>> with Reader("http://127.0.0.1:8470", "demo/billing", "worker-1") as reader:
    ...     for event in reader:
    ...         print(event.key, event.event_time)  # doctest: +SKIP
    """

    def __init__(self, url: str, group: str, name: str, **options: Any) -> None:  # noqa: ANN401 (AsyncReader's)
        self._thread = LoopThread(f"tidegauge-reader-{name}")
        self._core = AsyncReader(url, group, name, **options)

    @property
    def epoch(self) -> int | None:
        """Of this process, under its name; None before it joined."""
        return self._core.epoch

    def open(self) -> None:
        """Join the group. `read_next` does it too."""
        self._thread.run(self._core.open())

    def read_next(self, *, wait_ms: int = 1_000, limit: int = 1_000) -> list[Event]:
        """Read the next events; see `AsyncReader.read_next`."""
        return self._thread.run(self._core.read_next(wait_ms=wait_ms, limit=limit))

    def __iter__(self) -> Iterator[Event]:
        """Read event after event; see `AsyncReader`."""
        events = aiter(self._core)
        while True:
            try:
                yield self._thread.run(_next(events))
            except StopAsyncIteration:
                return

    def checkpoint(self, name: str) -> dict[str, Position]:
        """Confirm what was read, and remember where the whole group stands."""
        return self._thread.run(self._core.checkpoint(name))

    def get_time_window(self, stream: str) -> TimeWindow:
        """Find the time window of the group in a stream."""
        return self._thread.run(self._core.get_time_window(stream))

    def close(self) -> None:
        """Go offline at the confirmed position."""
        try:
            self._thread.run(self._core.close())
        finally:
            self._thread.close()

    def __enter__(self) -> Self:
        try:
            self.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._thread.run(self._core.__aexit__(kind, error, traceback))
        finally:
            self._thread.close()


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)
