"""The calls that an observer makes for all its writers."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.transport import Transport
from tidegauge.errors import ProblemError, WriterError, WriterFencedError, problem_of
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamInfo
from tidegauge.wire.writers import (
    LeaveStream,
    NoteTimes,
    RegisterWriter,
    Report,
    TimesNoted,
    WriterAnswer,
    WriterInfo,
    WriterList,
    WriterRegistered,
)
from writer_client.observing.observation import BULK, Last, Note

_A = TypeVar("_A", bound=BaseModel)
_T = TypeVar("_T")
_AT_ONCE = 32
"""More calls at the same time do not make a service any faster."""


class ObserverCalls:
    """The calls about one stream, by many writers; each may be repeated."""

    def __init__(self, transport: Transport, stream: StreamName) -> None:
        self._transport = transport
        self._stream = StreamCalls(transport, stream)
        self._path = f"/v1/streams/{stream}"
        self._incarnations: dict[str, int] = {}
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self.watermark: int | None = None

    async def describe(self) -> StreamInfo:
        """Look at the stream, and from then on insist that it is this one."""
        info = await self._stream.describe()
        self._learn(info.watermark)
        return info

    async def make_room(self, segments: int) -> None:
        """Let the stream have so many partitions."""
        await self._stream.configure(max_segments=segments)

    async def writers(self) -> AsyncIterator[WriterInfo]:
        """List all writers of the stream."""
        cursor: str | None = None
        while True:
            params = {"limit": 1_000, "cursor": cursor}
            page = await self._call("GET", "/writers", WriterList, params=params)
            for one in page.writers:
                yield one
            cursor = page.cursor
            if cursor is None:
                return

    async def register(self, writers: Iterable[str]) -> dict[str, WriterRegistered]:
        """Start new incarnations."""

        async def register(name: str) -> WriterRegistered:
            path = f"/writers/{name}/register"
            return await self._call("POST", path, WriterRegistered, RegisterWriter.new())

        names = list(writers)
        found = dict(zip(names, await self._together(map(register, names)), strict=True))
        for name, one in found.items():
            self._incarnations[name] = one.incarnation
            self._learn(one.watermark)
        return found

    async def leave(self, lasts: Iterable[Last]) -> dict[str, WriterError | None]:
        """Let writers leave, with their last time if they have one; tell who may not any more."""

        async def leave(last: Last) -> WriterError | None:
            number, path = self._incarnations[last.writer], f"/writers/{last.writer}/leave"
            body = LeaveStream(incarnation=number)
            if last.time is not None:
                position = dict(last.position)
                body = LeaveStream(incarnation=number, time=last.time, position=position)
            try:
                answer = await self._call("POST", path, WriterAnswer, body)
            except WriterFencedError as error:
                return error
            self._learn(answer.watermark)
            return None

        some = list(lasts)
        names = [one.writer for one in some]
        return dict(zip(names, await self._together(map(leave, some)), strict=True))

    async def note(self, notes: Sequence[Note]) -> list[tuple[Note, ProblemError | None]]:
        """Note many times; tell of each whether it was refused."""
        found: list[tuple[Note, ProblemError | None]] = []
        for first in range(0, len(notes), BULK):
            some = notes[first : first + BULK]
            body = NoteTimes(reports=[self._report(one) for one in some])
            answer = await self._transport.request(
                "POST", "/v1/note-times", answer=TimesNoted, body=body, retry=True
            )
            for note, result in zip(some, answer.results, strict=True):
                is_accepted = result["status"] == 200
                found.append((note, None if is_accepted else problem_of(result)))
                if is_accepted and isinstance(watermark := result.get("watermark"), int):
                    self._learn(watermark)
        return found

    def _report(self, note: Note) -> Report:
        return Report(
            stream=str(self._stream.stream),
            stream_id=self._stream.stream_id,
            writer=note.writer,
            time=note.time,
            position=dict(note.position),
            incarnation=self._incarnations[note.writer],
        )

    async def _together(self, calls: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
        """Make many calls, some at a time; the first that fails ends them, with its error."""

        async def limited(call: Coroutine[Any, Any, _T]) -> _T:
            async with self._limit:
                return await call

        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(limited(one)) for one in list(calls)]
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None
        return [one.result() for one in tasks]

    async def _call(
        self,
        method: str,
        path: str,
        answer: type[_A],
        body: BaseModel | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> _A:
        query = {**(params or {}), "stream_id": self._stream.stream_id}
        return await self._transport.request(
            method, self._path + path, answer=answer, body=body, params=query, retry=True
        )

    def _learn(self, watermark: int | None) -> None:
        known = [one for one in (self.watermark, watermark) if one is not None]
        self.watermark = max(known, default=None)
