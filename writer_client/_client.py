"""The calls that writers make."""

from collections.abc import Mapping
from typing import Any, TypeVar

import pyarrow as pa
from pydantic import BaseModel

from tidegauge.errors import ProblemError, problem_of
from tidegauge.names import StreamName, check_name
from tidegauge.topology import Position
from tidegauge.transport import Transport
from tidegauge.wire.events import (
    ARROW,
    INCARNATION_HEADER,
    SEQUENCE_HEADER,
    WRITER_HEADER,
    Appended,
)
from tidegauge.wire.streams import StreamInfo
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
    """The HTTP calls of one writer of one stream.

    Parameters
    ----------
    transport
        To the service.
    stream
        ``scope/stream``.
    name
        The writer's.
    """

    def __init__(self, transport: Transport, stream: str, name: str) -> None:
        self.transport = transport
        self.stream = StreamName.parse(stream)
        self.name = check_name(name)
        self.incarnation: int | None = None
        self.watermark: int | None = None
        self._stream_id: str | None = None

    async def describe(self) -> StreamInfo:
        """Look at the stream, and from then on insist that it is this one."""
        info = await self._call("GET", "", answer=StreamInfo)
        self._stream_id = info.stream_id
        return info

    async def register(self, time: int | None) -> WriterRegistered:
        """Start a new incarnation."""
        body = RegisterWriter() if time is None else RegisterWriter(time=time)
        registered = await self._call(
            "POST", f"/writers/{self.name}/register", answer=WriterRegistered, body=body
        )
        self.incarnation = registered.incarnation
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

    async def note_times(self, notes: list[tuple[int, Position]]) -> None:
        """Note one or many times, in order.

        Raises
        ------
        ReportRefusedError
            The first refusal.
        """
        if len(notes) == 1:
            report = NoteTime(
                time=notes[0][0], position=dict(notes[0][1]), incarnation=self.incarnation
            )
            path = f"/writers/{self.name}/note-time"
            noted = await self._call("POST", path, answer=TimeNoted, body=report)
            self._learn(noted.watermark)
            return
        many = NoteTimes(
            reports=[
                Report(
                    stream=str(self.stream),
                    writer=self.name,
                    stream_id=self._stream_id,
                    time=time,
                    position=dict(position),
                    incarnation=self.incarnation,
                )
                for time, position in notes
            ]
        )
        answered = await self.transport.request(
            "POST", "/v1/note-times", answer=TimesNoted, body=many, retry=True
        )
        for result in answered.results:
            if result["status"] != 200:
                raise _problem(result)
        self._learn(TimeNoted.model_validate(answered.results[-1]).watermark)

    async def leave(self, time: int | None, position: Position) -> None:
        """Leave the stream, with a last report if a time was ever noted."""
        last = LeaveStream(incarnation=self.incarnation)
        if time is not None:
            last = LeaveStream(incarnation=self.incarnation, time=time, position=dict(position))
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

    def _learn(self, watermark: int | None) -> None:
        self.watermark = watermark


def _problem(document: Mapping[str, Any]) -> ProblemError:
    return problem_of(document)


def encode_events(columns: pa.RecordBatch) -> bytes:
    """Encode events as an Arrow IPC stream."""
    with pa.BufferOutputStream() as sink:
        with pa.ipc.new_stream(sink, columns.schema) as stream:
            stream.write_batch(columns)
        body: bytes = sink.getvalue().to_pybytes()
    return body
