"""The calls that writers make."""

import asyncio
import time as clock
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from tidegauge.client.transport import Transport
from tidegauge.errors import InvalidPositionError, InvalidTimeError, problem_of
from tidegauge.names import StreamName, check_name
from tidegauge.topology import Position
from tidegauge.wire.events import (
    ARROW,
    INCARNATION_HEADER,
    SEQUENCE_HEADER,
    WRITER_HEADER,
    Appended,
)
from tidegauge.wire.streams import StreamInfo
from tidegauge.wire.transactions import (
    BeginTransaction,
    CommitTransaction,
    EventsStaged,
    TransactionBegun,
    TransactionEnded,
)
from tidegauge.wire.writers import (
    LeaveStream,
    NoteTime,
    NoteTimes,
    RegisterWriter,
    Report,
    TimeNoted,
    TimesNoted,
    WriterAnswer,
    WriterRegistered,
)

_A = TypeVar("_A", bound=BaseModel)


class WriterCalls:
    """The HTTP calls of one writer of one stream."""

    def __init__(self, transport: Transport, stream: str, name: str) -> None:
        self.transport = transport
        self.stream = StreamName.parse(stream)
        self.name = check_name(name)
        self.incarnation: int | None = None
        self.watermark: int | None = None
        self.told_time: int | None = None
        self.beat_ms: int | None = None
        self.reported_s = 0.0
        """When the newest report was accepted, on the monotonic clock."""
        self._noted_time: int | None = None
        self._reporting = asyncio.Lock()
        self._left = False
        self._registration: RegisterWriter | None = None
        """The one that is not answered yet: whoever tries again sends the same."""
        self._stream_id: str | None = None

    async def describe(self) -> StreamInfo:
        """Look at the stream, and from then on insist that it is this one."""
        info = await self._call("GET", "", answer=StreamInfo)
        self._stream_id = info.stream_id
        return info

    async def register(self, time: int | None) -> WriterRegistered:
        """Start a new incarnation."""
        body = self._registration = self._registration or RegisterWriter.new(time)
        registered = await self._call(
            "POST", f"/writers/{self.name}/register", answer=WriterRegistered, body=body
        )
        self._registration = None
        self.incarnation = registered.incarnation
        self.told_time, self.beat_ms = registered.time, registered.beat_ms
        self._accept(time)
        self._learn(registered.watermark)
        return registered

    async def append(self, segment: int, body: bytes, sequence: int) -> Appended:
        """Append Arrow events to a segment."""
        appended = await self._call(
            "POST",
            f"/segments/{segment}/events",
            answer=Appended,
            body=body,
            headers={
                "content-type": ARROW,
                WRITER_HEADER: self.name,
                INCARNATION_HEADER: str(self.incarnation),
                SEQUENCE_HEADER: str(sequence),
            },
        )
        self._learn(appended.watermark)
        return appended

    async def begin(self, timeout_ms: int) -> TransactionBegun:
        """Begin a transaction; what an answer that was lost began ends with its lease."""
        body = BeginTransaction(
            writer=self.name, incarnation=self.incarnation, timeout_ms=timeout_ms
        )
        return await self._call("POST", "/transactions", answer=TransactionBegun, body=body)

    async def stage(self, transaction: str, segment: int, body: bytes, sequence: int) -> None:
        """Stage Arrow events."""
        await self._call(
            "POST",
            f"/transactions/{transaction}/segments/{segment}/events",
            answer=EventsStaged,
            body=body,
            headers={"content-type": ARROW, SEQUENCE_HEADER: str(sequence)},
        )

    async def ping(self, transaction: str) -> None:
        """Renew a lease."""
        await self._call("POST", f"/transactions/{transaction}/ping", answer=TransactionBegun)

    async def commit(self, transaction: str, time: int | None) -> TransactionEnded:
        """Commit; with a time it is a report."""
        async with self._reporting:
            ended = await self._call(
                "POST",
                f"/transactions/{transaction}/commit",
                answer=TransactionEnded,
                body=CommitTransaction(time=time),
            )
            if time is not None:
                self._accept(time)
        self._learn(ended.watermark)
        return ended

    async def abort(self, transaction: str) -> None:
        """Abort a transaction."""
        await self._call("POST", f"/transactions/{transaction}/abort", answer=TransactionEnded)

    async def note_time(self, time: int, position: Position) -> None:
        """Note one time."""
        async with self._reporting:
            await self._note_time(time, position)

    async def beat(self, otherwise: int | None) -> None:
        """Note the newest accepted time again; if there is none, another one, or nothing.

        The races: a beat that overtakes a note goes back behind it, and one that comes after a leave
        makes the writer live again. So reports are made one at a time, and none after a leave. And
        a note whose answer was lost may have been stored: then its time is the newest.
        """
        async with self._reporting:
            time = otherwise if self._noted_time is None else self._noted_time
            if time is None or self._left:
                return
            try:
                await self._note_time(time, {})
            except InvalidTimeError as refused:
                if refused.stored_time is None:
                    raise
                await self._note_time(refused.stored_time, {})

    async def _note_time(self, time: int, position: Position) -> None:
        report = NoteTime(time=time, position=dict(position), incarnation=self.incarnation)
        noted = await self._call(
            "POST", f"/writers/{self.name}/note-time", answer=TimeNoted, body=report
        )
        self._learn(noted.watermark)
        self._accept(time)

    async def note_times(self, notes: Sequence[tuple[int, Position]]) -> None:
        """Note many times, in order; the times must not fall.

        If the service can take none or some of them at the moment, one report for all of them
        follows: whichever were stored, it goes back behind none and leaves nothing out.
        """
        async with self._reporting:
            await self._note_times(notes)

    async def _note_times(self, notes: Sequence[tuple[int, Position]]) -> None:
        async for attempt in self.transport.attempts():
            with attempt:
                is_first = attempt.retry_state.attempt_number == 1
                reports = [
                    Report(
                        stream=str(self.stream),
                        writer=self.name,
                        stream_id=self._stream_id,
                        time=time,
                        position=dict(position),
                        incarnation=self.incarnation,
                    )
                    for time, position in (notes if is_first else [_joined(notes)])
                ]
                answered = await self.transport.request(
                    "POST",
                    "/v1/note-times",
                    answer=TimesNoted,
                    body=NoteTimes(reports=reports),
                    retry=True,
                )
                _raise_refusal(answered.results)
                self._learn(TimeNoted.model_validate(answered.results[-1]).watermark)
                self._accept(notes[-1][0])

    async def leave(self, time: int | None, position: Position) -> None:
        """Leave the stream, with a last report if a time was ever noted."""
        last = LeaveStream(incarnation=self.incarnation)
        if time is not None:
            last = LeaveStream(incarnation=self.incarnation, time=time, position=dict(position))
        async with self._reporting:
            self._left = True
            answer = await self._call(
                "POST", f"/writers/{self.name}/leave", answer=WriterAnswer, body=last
            )
        self._learn(answer.watermark)

    async def _call(
        self,
        method: str,
        path: str,
        *,
        answer: type[_A],
        body: BaseModel | bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> _A:
        """Call, and repeat safely: every call here means the same when it is repeated."""
        return await self.transport.request(
            method,
            f"/v1/streams/{self.stream}{path}",
            answer=answer,
            body=body,
            headers=headers,
            params={"stream_id": self._stream_id},
            retry=True,
        )

    def _accept(self, time: int | None) -> None:
        """Take in that a report was accepted, or a registration with or without one."""
        self.reported_s = clock.monotonic()
        self._noted_time = time

    def _learn(self, watermark: int | None) -> None:
        """Keep the newest: answers overtake each other."""
        known = [one for one in (self.watermark, watermark) if one is not None]
        self.watermark = max(known, default=None)


def _joined(notes: Sequence[tuple[int, Position]]) -> tuple[int, Position]:
    """Make one note of several: the last time, at the furthest position."""
    furthest: dict[int, int] = {}
    for _, position in notes:
        for segment, offset in position.items():
            furthest[segment] = max(offset, furthest.get(segment, 0))
    return notes[-1][0], furthest


def _raise_refusal(results: Sequence[Mapping[str, Any]]) -> None:
    """Raise the first refusal that is one.

    The race: the answer is lost after the reports were stored, and the request is repeated. Then
    the earlier ones go back behind what the last of them left, and are refused. They were
    stored, and the last one is accepted again; no other reports of this writer go back.
    """
    accepted_later = results[-1]["status"] == 200
    for result in results:
        if result["status"] != 200:
            problem = problem_of(result)
            goes_back = isinstance(problem, InvalidTimeError | InvalidPositionError)
            if not (goes_back and accepted_later):
                raise problem
