"""The hot path: one report a request, answered without a framework in between.

It is a plain ASGI application in front of the others. `documentation` describes it in OpenAPI.
"""

import re

from fastapi import APIRouter
from starlette.types import Receive, Scope, Send

from controller import reports
from controller.access import Caller, Role
from controller.clocks import Clocks
from controller.http.decoding import read_note_time
from controller.http.plain import check_post, read_body, read_query, send_json
from controller.http.problems import send_problem
from controller.http.routing import StreamOf, WriterName
from controller.http.writers import WRITERS
from controller.metrics import ACCEPTED
from controller.reports import TimeReport
from controller.sequencer import Batch
from controller.service import Service
from controller.streams import StreamState
from tidegauge.errors import InternalError, InvalidRequestError, ProblemError
from tidegauge.names import StreamName, check_name
from tidegauge.wire.writers import NoteTime, TimeNoted

documentation = APIRouter(tags=["writers"])
_PATH = re.compile(r"/v1/streams/[^/]+/[^/]+/writers/[^/]+/note-time")
_PLACES = 100_000


@documentation.post(WRITERS + "/{writer}/note-time")
async def note_time(state: StreamOf, writer: WriterName, report: NoteTime) -> TimeNoted:  # type: ignore[empty-body]
    """Promise that what the writer writes after a position is at or above a time."""


class _Call:
    """One report on its way through a batch."""

    __slots__ = ("_clocks", "_report", "_stream", "_writer")

    def __init__(
        self, clocks: Clocks, stream: StreamState, writer: str, report: TimeReport
    ) -> None:
        self._clocks = clocks
        self._stream = stream
        self._writer = writer
        self._report = report

    def decide(self, batch: Batch) -> None:
        """Take in the report."""
        reports.note_time(batch, self._clocks, self._stream, self._writer, self._report)

    def answer(self) -> bytes:
        """Say what is durable now."""
        stream = self._stream
        watermark = stream.watermark
        hint = reports.seconds_hint(stream, self._report.time)
        if hint is not None or watermark is None or stream.final:
            return self._full_answer(hint)
        return b'{"stream_id":"%s","watermark":%d,"state":"%s","final":false,"hint":null}' % (
            stream.identity.stream_id.encode(),
            watermark,
            stream.clock.state(self._writer).encode(),
        )

    def _full_answer(self, hint: str | None) -> bytes:
        stream = self._stream
        noted = TimeNoted(
            stream_id=stream.identity.stream_id,
            watermark=stream.watermark,
            state=stream.clock.state(self._writer),
            final=stream.final,
            hint=hint,
        )
        return noted.model_dump_json().encode()


class NoteTimeApp:
    """Answers ``POST …/writers/{writer}/note-time``.

    Parameters
    ----------
    service
        What takes the reports.
    """

    def __init__(self, service: Service) -> None:
        self._service = service
        self._limit = service.settings.max_body_bytes
        self._places: dict[str, tuple[StreamState, str]] = {}
        """The stream and the writer of paths that were asked for before."""

    def serves(self, path: str) -> bool:
        """Whether a path is this call's."""
        return path in self._places or _PATH.fullmatch(path) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in one report."""
        try:
            call = await self._read(scope, receive)
            answer = await self._service.sequencer.submit(call.decide, call.answer)
        except ProblemError as error:
            self._service.metrics.report_tally[error.code] += 1
            await send_problem(send, error)
            return
        except Exception:
            await send_problem(send, InternalError(f"POST {scope['path']}"))
            raise
        self._service.metrics.report_tally[ACCEPTED] += 1
        await send_json(send, answer)

    async def _read(self, scope: Scope, receive: Receive) -> _Call:
        check_post(scope)
        path = scope["path"]
        place = self._places.get(path)
        if place is None or place[0].deleted:
            place = self._find(path, scope["user"])
        else:
            scope["user"].check(Role.WRITE, place[0].identity.name.scope)
        stream, writer = place
        if scope["query_string"]:
            query = read_query(scope["query_string"], {"stream_id"})
            stream.check_id(query.get("stream_id"))
        body = await read_body(receive, self._limit)
        return _Call(self._service.clocks, stream, writer, read_note_time(body))

    def _find(self, path: str, caller: Caller) -> tuple[StreamState, str]:
        *_, scope, stream, _, writer, _ = path.split("/")
        try:
            name = StreamName(check_name(scope), check_name(stream))
            check_name(writer)
        except ValueError as error:
            raise InvalidRequestError.of("path", str(error)) from error
        caller.check(Role.WRITE, name.scope)
        if len(self._places) >= _PLACES:
            self._places.clear()
        place = self._places[path] = self._service.stream(name), writer
        return place
