"""Reader groups: what operators and readers ask them, and the heartbeat of a reader."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel

from reader_client._stream import AsyncStreamClient, ReaderOptions
from tidegauge import groups
from tidegauge.client.blocks import Closing
from tidegauge.client.outage import RETRY_FOR
from tidegauge.client.sync import LoopThread, SyncFace, blocking, face_of
from tidegauge.client.transport import Transport
from tidegauge.errors import PreconditionFailedError, UnknownReaderError
from tidegauge.groups import GroupState
from tidegauge.names import parse_group
from tidegauge.topology import Position, Topology
from tidegauge.windows import TimeWindow
from tidegauge.wire.groups import (
    CreateGroup,
    GroupDetails,
    GroupInfo,
    GroupProgress,
    GroupWindows,
    ReaderBalance,
    ReaderHeartbeat,
    StateDocument,
    TimeWindowInfo,
    by_segment,
)
from tidegauge.wire.values import Answer

_A = TypeVar("_A", bound=BaseModel)
Transition = Callable[[GroupState], GroupState]


class AsyncReaderGroup:
    """A reader group, as operators and readers see it.

    Parameters
    ----------
    url
        Of the service, or of each of its controllers, with commas between.
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
        self.name = parse_group(name)
        self.url = url
        self.token = token
        self.retry_for = retry_for
        self._transport = Transport(url, token=token, retry_for=retry_for)

    async def create(self, /, streams: list[str], **options: Any) -> GroupInfo:  # noqa: ANN401 (fields of CreateGroup)
        """Create the group; idempotent: succeeds if the group exists with these settings.

        Parameters
        ----------
        streams
            What it reads, ``scope/stream`` each.
        **options
            ``start`` (``earliest``, ``latest``), ``start_time``, ``start_cut`` (a position for
            each stream, ``{"scope/stream": {segment: offset}}``; a stream that it leaves out
            starts at the earliest event), ``heartbeat_ms``, ``dead_after_ms``.

        Raises
        ------
        GroupExistsError
            If it is there with other settings.
        InvalidPositionError
            If ``start_cut`` lies outside the streams.
        """
        wanted = CreateGroup.of_settings(streams=streams, **options)
        return await self.call("PUT", "", GroupInfo, body=wanted)

    async def describe(self) -> GroupDetails:
        """Describe the group, its shared state, and the progress of its query."""
        return await self.call("GET", "", GroupDetails)

    async def report_progress(self, /, **progress: Any) -> None:  # noqa: ANN401 (fields of GroupProgress)
        """Report the progress of the query that reads with the group; it is shown for 5 minutes.

        Parameters
        ----------
        **progress
            ``bound``, ``lag_ms``, ``backlog`` (rows), ``state_bytes``, and, counted since the
            query started, ``late``, ``late_by_ms`` (the greatest), ``late_writers`` (rows by
            writer, of the worst ten), ``late_output``, ``partially_late``.

        Raises
        ------
        UnknownGroupError
            If there is no such group.
        """
        reported = GroupProgress.of_settings(**progress)
        await self.call("POST", "/progress", Answer, body=reported)

    async def delete(self) -> None:
        """Delete the group, and release the events that it retained."""
        await self.call("DELETE", "", Answer)

    async def get_time_window(self, stream: str | None = None) -> TimeWindow:
        """Return the time window of the group, the same for all of its readers.

        Parameters
        ----------
        stream
            One of its streams, ``scope/stream``; left out, all together that are still there.
        """
        found: TimeWindowInfo | GroupWindows
        if stream is None:
            found = await self.windows()
        else:
            asked = {"stream": stream}
            found = await self.call("GET", "/time-window", TimeWindowInfo, params=asked)
        return TimeWindow(found.lower, found.upper)

    async def windows(self) -> GroupWindows:
        """Return its time windows in all streams that still exist, each with the next mark."""
        return await self.call("GET", "/time-window", GroupWindows)

    async def position(self, stream: str) -> Position:
        """Return the joint position of the group in a stream."""
        return (await self.state())[0].position(stream)

    async def reader_offline(
        self, reader: str, position: Mapping[str, Position] | None = None, *, epoch: int
    ) -> None:
        """Take a reader offline; others continue its segments where it confirmed, or at a position.

        Parameters
        ----------
        reader
            Its name.
        position
            By ``scope/stream``; may lie before what it had confirmed.
        epoch
            Which process of that name is meant: `Reader.epoch`, or what `state` says.

        Raises
        ------
        UnknownReaderError
            If there is none.
        ReaderFencedError
            If another process took the name over.
        InvalidTransitionError
            If the position names a segment that the reader does not own, or goes back before
            one whose successors were opened.
        """
        logs = await self.topologies()
        offline = partial(groups.go_offline, reader=reader, epoch=epoch, topologies=logs)
        await self.change(partial(offline, position=by_segment(position or {})))

    async def checkpoint(self, name: str) -> dict[str, Position]:
        """Store the position of the group, and return it, to resume from exactly there."""
        state = await self.change(partial(groups.checkpoint, name=name))
        streams = sorted({ref.stream for ref in state.checkpoints[name]})
        return {stream: state.position(stream) for stream in streams}

    async def state(self) -> tuple[GroupState, str]:
        """Read the shared state and its version."""
        info = await self.describe()
        return info.state.to_state(), f'"{info.revision}"'

    async def change(self, transition: Transition) -> GroupState:
        """Apply a transition to the newest state, and again after a lost race.

        It is repeated if the outcome is lost, too: what was done already changes nothing more.
        """
        async for attempt in self._transport.attempts():
            with attempt:
                is_first = attempt.retry_state.attempt_number == 1
                while True:
                    changed = await self._change_once(transition, is_first=is_first)
                    if changed is not None:
                        return changed
        msg = "there is always a first attempt"
        raise AssertionError(msg)

    async def _change_once(
        self, transition: Transition, *, is_first: bool
    ) -> GroupState | None:
        """Apply a transition; None if somebody was faster."""
        state, version = await self.state()
        try:
            changed = transition(state)
        except UnknownReaderError:
            if is_first:
                raise
            return state  # an attempt of which nothing was heard took the reader offline
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
            return None
        return changed

    async def topologies(self) -> dict[str, Topology]:
        """Read the topologies of the group's streams."""
        info = await self.describe()
        found = {}
        for stream in info.streams:
            async with aclosing(self.stream_client(stream, info.stream_ids[stream])) as client:
                found[stream] = await client.topology()
        return found

    def stream_client(self, stream: str, stream_id: str) -> AsyncStreamClient:
        """Make a client to one of the group's streams."""
        return AsyncStreamClient(
            self.url, stream, token=self.token, stream_id=stream_id, retry_for=self.retry_for
        )

    async def call(
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


@face_of(AsyncReaderGroup)
class ReaderGroup(SyncFace[AsyncReaderGroup], Closing):
    """The synchronous face of `AsyncReaderGroup`."""

    def __init__(self, url: str, name: str, **options: Unpack[ReaderOptions]) -> None:
        self._thread = LoopThread(f"tidegauge-group-{name}")
        self._core = AsyncReaderGroup(url, name, **options)

    create = blocking(AsyncReaderGroup.create)
    describe = blocking(AsyncReaderGroup.describe)
    report_progress = blocking(AsyncReaderGroup.report_progress)
    delete = blocking(AsyncReaderGroup.delete)
    get_time_window = blocking(AsyncReaderGroup.get_time_window)
    windows = blocking(AsyncReaderGroup.windows)
    position = blocking(AsyncReaderGroup.position)
    reader_offline = blocking(AsyncReaderGroup.reader_offline)
    checkpoint = blocking(AsyncReaderGroup.checkpoint)

    def close(self) -> None:
        """Close the connections."""
        self._thread.end(self._core.aclose)


class Heartbeat:
    """The heartbeat of one reader, from now until it is stopped or refused."""

    def __init__(
        self, group: AsyncReaderGroup, reader: str, epoch: int, *, every_ms: int
    ) -> None:
        self.unbalanced = asyncio.Event()
        """Set by every answer that says that the reader does not own its share."""
        self._failure: Exception | None = None
        self._task = asyncio.create_task(self._run(group, reader, epoch, every_ms / 1_000))

    def raise_failure(self) -> None:
        """Raise the error that stopped the heartbeat, if there is one."""
        if self._failure is not None:
            raise self._failure

    def note(self, answer: ReaderBalance) -> None:
        """Record what an answer says."""
        if not answer.balanced:
            self.unbalanced.set()

    async def stop(self) -> None:
        """Stop the heartbeat."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(
        self, group: AsyncReaderGroup, reader: str, epoch: int, every_s: float
    ) -> None:
        path, beat = f"/readers/{reader}/heartbeat", ReaderHeartbeat(epoch=epoch)
        while self._failure is None:
            await asyncio.sleep(every_s)
            try:
                self.note(await group.call("POST", path, ReaderBalance, body=beat))
            except Exception as error:  # noqa: BLE001 (raised by the reader's next call)
                self._failure = error
                self.unbalanced.set()  # so that who waits learns of it
