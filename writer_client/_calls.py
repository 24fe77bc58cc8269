"""The calls of writers: those of one writer, and those of an observer for all of its own."""

import asyncio
import time as clock
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel

from tidegauge.client.stream_calls import StreamCalls
from tidegauge.client.transport import Transport
from tidegauge.errors import (
    InvalidPositionError,
    InvalidTimeError,
    ProblemError,
    TimeInFutureError,
    WriterError,
    WriterFencedError,
    problem_of,
)
from tidegauge.names import StreamName, check_name
from tidegauge.topology import Position
from tidegauge.wire.events import (
    ARROW,
    INCARNATION_HEADER,
    SEQUENCE_HEADER,
    WRITER_HEADER,
    Appended,
)
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
    WriterInfo,
    WriterRegistered,
)
from writer_client._hints import Hints
from writer_client._notes import BULK, Last, Note, raise_to

_A = TypeVar("_A", bound=BaseModel)
_T = TypeVar("_T")
_AT_ONCE = 32
"""More calls at the same time do not make a service any faster."""


class WritersCalls(StreamCalls):
    """The calls for writers of one stream, by their names; each may be repeated.

    Attributes
    ----------
    watermark
        The newest of all answers, which overtake each other; ms.
    hints
        Where what looks wrong is logged.
    """

    def __init__(self, transport: Transport, stream: StreamName) -> None:
        super().__init__(transport, stream)
        self.transport = transport
        self.watermark: int | None = None
        self.hints = Hints(str(stream))
        self._incarnations: dict[str, int] = {}

    async def _register(self, writer: str, body: RegisterWriter) -> WriterRegistered:
        """Start a new incarnation."""
        path = f"/writers/{writer}/register"
        registered = await self._call("POST", path, WriterRegistered, body=body)
        self._incarnations[writer] = registered.incarnation
        return registered

    async def _leave(self, last: Last, *, ended: bool = False) -> None:
        """Leave the stream, with a last report if a time was ever noted."""
        noted: dict[str, Any] = {}
        if last.time is not None:
            noted = {"time": last.time, "position": dict(last.position)}
        body = LeaveStream(
            incarnation=self._incarnations.get(last.writer), ended=ended, **noted
        )
        await self._call("POST", f"/writers/{last.writer}/leave", WriterAnswer, body=body)

    async def _report(self, notes: Iterable[Note]) -> list[Mapping[str, Any]]:
        """Report many notes in one call, and return a result for each."""
        reports = [
            Report(
                stream=str(self.stream),
                stream_id=self.stream_id,
                writer=one.writer,
                time=one.time,
                position=dict(one.position),
                incarnation=self._incarnations.get(one.writer),
            )
            for one in notes
        ]
        answer = await self._transport.request(
            "POST",
            "/v1/note-times",
            answer=TimesNoted,
            body=NoteTimes(reports=reports),
            retry=True,
        )
        for report, result in zip(reports, answer.results, strict=True):
            if result["status"] == 200:
                self._learn(result.get("watermark"))
                self.hints.answer(report.writer, result.get("hint"))
            elif result["code"] == TimeInFutureError.code:
                self.hints.log(report.writer, TimeInFutureError.code, "%s", result["detail"])
        return list(answer.results)

    async def _call(self, method: str, path: str, answer: type[_A], **more: Any) -> _A:  # noqa: ANN401 (parts of a request)
        """Call, and repeat safely: every call here means the same when it is repeated."""
        return await self._ask(method, path, answer, retry=True, **more)

    async def _ask(self, method: str, path: str, answer: type[_A], **more: Any) -> _A:  # noqa: ANN401 (as above)
        found = await super()._ask(method, path, answer, **more)
        self._learn(getattr(found, "watermark", None))
        return found

    def _learn(self, watermark: object) -> None:
        if isinstance(watermark, int):
            before = self.watermark
            self.watermark = watermark if before is None else max(watermark, before)


class WriterCalls(WritersCalls):
    """The calls of one writer."""

    def __init__(self, transport: Transport, stream: str, name: str) -> None:
        super().__init__(transport, StreamName.parse(stream))
        self.name = check_name(name)
        self.registered_time: int | None = None
        self.beat_ms: int | None = None
        self.reported_s = 0.0
        """When the newest report was accepted, on the monotonic clock."""
        self._accepted_time: int | None = None
        self._reporting = asyncio.Lock()
        self._left = False
        self._registration: RegisterWriter | None = None
        """The one that is not answered yet: a second try sends the same."""

    @property
    def incarnation(self) -> int | None:
        """From the registration; None before."""
        return self._incarnations.get(self.name)

    async def register(self, time: int | None) -> WriterRegistered:
        """Start a new incarnation."""
        body = self._registration = self._registration or RegisterWriter.new(time)
        registered = await self._register(self.name, body)
        self._registration = None
        self.registered_time, self.beat_ms = registered.time, registered.beat_ms
        self._accept(time)
        return registered

    async def _ask(self, method: str, path: str, answer: type[_A], **more: Any) -> _A:  # noqa: ANN401 (as above)
        try:
            found = await super()._ask(method, path, answer, **more)
        except TimeInFutureError as refused:
            self.hints.log(self.name, refused.code, "%s", refused.detail)
            raise
        self.hints.answer(self.name, getattr(found, "hint", None))
        return found

    async def append(self, segment: int, body: bytes, sequence: int) -> Appended:
        """Append Arrow events to a segment."""
        headers = {
            "content-type": ARROW,
            WRITER_HEADER: self.name,
            INCARNATION_HEADER: str(self.incarnation),
            SEQUENCE_HEADER: str(sequence),
        }
        path = f"/segments/{segment}/events"
        return await self._call("POST", path, Appended, body=body, headers=headers)

    async def begin(self, timeout_ms: int) -> TransactionBegun:
        """Begin a transaction; one whose answer was lost ends with its lease."""
        body = BeginTransaction(
            writer=self.name, incarnation=self.incarnation, timeout_ms=timeout_ms
        )
        return await self._call("POST", "/transactions", TransactionBegun, body=body)

    async def stage(self, transaction: str, segment: int, body: bytes, sequence: int) -> None:
        """Stage Arrow events."""
        headers = {"content-type": ARROW, SEQUENCE_HEADER: str(sequence)}
        path = f"/transactions/{transaction}/segments/{segment}/events"
        await self._call("POST", path, EventsStaged, body=body, headers=headers)

    async def ping(self, transaction: str) -> None:
        """Renew a lease."""
        await self._call("POST", f"/transactions/{transaction}/ping", TransactionBegun)

    async def commit(self, transaction: str, time: int | None) -> TransactionEnded:
        """Commit; with a time it is a report."""
        path, body = f"/transactions/{transaction}/commit", CommitTransaction(time=time)
        async with self._reporting:
            ended = await self._call("POST", path, TransactionEnded, body=body)
            if time is not None:
                self._accept(time)
        return ended

    async def abort(self, transaction: str) -> None:
        """Abort a transaction."""
        await self._call("POST", f"/transactions/{transaction}/abort", TransactionEnded)

    async def note_time(self, time: int, position: Position) -> None:
        """Note one time."""
        async with self._reporting:
            await self._note_time(time, position)

    async def note_times(self, notes: Sequence[tuple[int, Position]]) -> None:
        """Note times, in order; they must not fall.

        If the service can take none or some of them at the moment, one report for all of them
        follows: whichever were stored, it goes back behind none and leaves nothing out.
        """
        async with self._reporting:
            if len(notes) == 1:
                await self._note_time(*notes[0])
                return
            async for attempt in self.transport.attempts():
                with attempt:
                    is_first = attempt.retry_state.attempt_number == 1
                    some = notes if is_first else [_joined(notes)]
                    results = await self._report(Note(self.name, *one) for one in some)
                    _raise_refusal(results)
                    self._accept(notes[-1][0])

    async def beat(self, otherwise: int | None) -> None:
        """Note the newest accepted time again; if there is none, another one, or nothing.

        The races: a beat that overtakes a note goes back behind it, and one that comes after a leave
        makes the writer live again. So reports are made one at a time, and none after a leave. And
        a note whose answer was lost may have been stored: then its time is the newest.
        """
        async with self._reporting:
            time = otherwise if self._accepted_time is None else self._accepted_time
            if time is None or self._left:
                return
            try:
                await self._note_time(time, {})
            except InvalidTimeError as refused:
                if refused.stored_time is None:
                    raise
                await self._note_time(refused.stored_time, {})

    async def leave(self, time: int | None, position: Position, *, ended: bool = False) -> None:
        """Leave the stream, with a last report if a time was ever noted."""
        async with self._reporting:
            self._left = True
            await self._leave(Last(self.name, time, position), ended=ended)

    async def _note_time(self, time: int, position: Position) -> None:
        report = NoteTime(time=time, position=dict(position), incarnation=self.incarnation)
        await self._call("POST", f"/writers/{self.name}/note-time", TimeNoted, body=report)
        self._accept(time)

    def _accept(self, time: int | None) -> None:
        """Record that a report was accepted, or a registration with or without one."""
        self.reported_s = clock.monotonic()
        self._accepted_time = time


class ObserverCalls(WritersCalls):
    """The calls of an observer, for all its writers."""

    def __init__(self, transport: Transport, stream: StreamName) -> None:
        super().__init__(transport, stream)
        self._limit = asyncio.Semaphore(_AT_ONCE)

    def writers(self) -> AsyncIterator[WriterInfo]:
        """List all writers of the stream."""
        return self._writers()

    async def register(self, writers: Iterable[str]) -> dict[str, WriterRegistered]:
        """Start new incarnations."""
        names = list(writers)
        calls = (self._register(one, RegisterWriter.new()) for one in names)
        return dict(zip(names, await self._together(calls), strict=True))

    async def leave(self, lasts: Iterable[Last]) -> dict[str, WriterError | None]:
        """Let writers leave, with their last time if they have one; return which may not any more."""

        async def leave(last: Last) -> WriterError | None:
            try:
                await self._leave(last)
            except WriterFencedError as error:
                return error
            return None

        some = list(lasts)
        names = [one.writer for one in some]
        return dict(zip(names, await self._together(map(leave, some)), strict=True))

    async def note(self, notes: Sequence[Note]) -> list[tuple[Note, ProblemError | None]]:
        """Note many times; return for each whether it was refused."""
        found: list[tuple[Note, ProblemError | None]] = []
        for first in range(0, len(notes), BULK):
            some = notes[first : first + BULK]
            for note, result in zip(some, await self._report(some), strict=True):
                found.append((note, None if result["status"] == 200 else problem_of(result)))
        return found

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


def _joined(notes: Sequence[tuple[int, Position]]) -> tuple[int, Position]:
    """Make one note of several: the last time, at the furthest position."""
    furthest: dict[int, int] = {}
    for _, position in notes:
        raise_to(furthest, position)
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
