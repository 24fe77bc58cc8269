"""The hot path: one report a request, answered without a framework in between.

It is a plain ASGI application in front of the others. `documentation` describes it in OpenAPI.
"""

import logging
import re
from time import perf_counter
from typing import NamedTuple
from weakref import ReferenceType, ref

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from controller.access import Caller, Guard, Role
from controller.commit.batch import Batch
from controller.http.calls.writers import WRITERS
from controller.http.messages.decoding import read_note_time
from controller.http.messages.plain import check_post, read_body, read_query, send_json
from controller.http.messages.problems import send_problem, write_problem
from controller.http.routing import StreamOf, WriterName
from controller.metrics.counters import ACCEPTED
from controller.service import Service
from controller.serving.protocol import RecalledCall, Reply
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.aggregation.intake import TimeReport
from tidegauge.aggregation.writers import WriterState
from tidegauge.errors import (
    InternalError,
    InvalidRequestError,
    MethodNotAllowedError,
    ProblemError,
)
from tidegauge.names import StreamName, check_name
from tidegauge.wire.writers import NoteTime, TimeNoted

documentation = APIRouter(tags=["writers"])
ROUTE = WRITERS + "/{writer}/note-time"
_PATH = re.compile(r"/v1/streams/[^/]+/[^/]+/writers/[^/]+/note-time")
_OK = 200
_log = logging.getLogger(__name__)


@documentation.post(ROUTE)
async def note_time(state: StreamOf, writer: WriterName, report: NoteTime) -> TimeNoted:  # type: ignore[empty-body]
    """Promise that what the writer writes after a position is at or above a time."""


class _Place(NamedTuple):
    """Where the reports of a path go: what the protocol recalls by its head.

    Attributes
    ----------
    service
        What takes them.
    guard
        Knows who may send them.
    caller
        Who sends them.
    stream
        That the path names; what is recalled lets go of a stream that is gone.
    writer
        As the path names it.
    """

    service: Service
    guard: Guard
    caller: Caller
    stream: ReferenceType[StreamState]
    writer: str

    @property
    def is_current(self) -> bool:
        """Whether the path still means this stream, and the caller still has a token."""
        stream = self.stream()
        return (
            stream is not None
            and not stream.deleted
            and self.service.ownership.is_certain
            and self.guard.vouches_for(self.caller)
        )

    def take(self, body: bytes, reply: Reply) -> None:
        """Begin to take in a report."""
        began = perf_counter()
        try:
            report = read_note_time(body)
        except ProblemError as error:
            _refuse(self.service, reply, error, began=began)
            return
        # It is current, and so it is there.
        stream: StreamState = self.stream()  # type: ignore[assignment]
        recalled = _RecalledReport(self, stream, report, reply, began=began)
        self.service.sequencer.enter(recalled)


def write_noted(stream: StreamState, state: WriterState, hint: str | None) -> bytes:
    """Write the answer to a report, a `TimeNoted`, of what is durable now."""
    watermark = stream.watermark
    if hint is None and watermark is not None and not stream.final:
        return b'{"stream_id":"%s","watermark":%d,"state":"%s","final":false,"hint":null}' % (
            stream.identity.stream_id.encode(),
            watermark,
            state.encode(),
        )
    noted = TimeNoted(
        stream_id=stream.identity.stream_id,
        watermark=watermark,
        state=state,
        final=stream.final,
        hint=hint,
    )
    return noted.model_dump_json().encode()


class _Report:
    """One report on its way through a batch."""

    __slots__ = ("_clocks", "_report", "_stream", "_writer")

    def __init__(
        self, service: Service, stream: StreamState, writer: str, report: TimeReport
    ) -> None:
        self._clocks = service.clocks
        self._stream = stream
        self._writer = writer
        self._report = report

    def decide(self, batch: Batch) -> None:
        """Take in the report."""
        reports.note_time(batch, self._clocks, self._stream, self._writer, self._report)

    def answer(self) -> bytes:
        """Say what is durable now."""
        stream = self._stream
        hint = reports.seconds_hint(stream, self._report.time)
        return write_noted(stream, stream.aggregator.state(self._writer), hint)


class _RecalledReport(_Report):
    """One report that nobody awaits; it answers itself."""

    __slots__ = ("_began", "_reply", "_service")

    def __init__(
        self,
        place: _Place,
        stream: StreamState,
        report: TimeReport,
        reply: Reply,
        *,
        began: float,
    ) -> None:
        super().__init__(place.service, stream, place.writer, report)
        self._service = place.service
        self._reply = reply
        self._began = began

    def finish(self) -> None:
        """Answer."""
        try:
            answer = self.answer()
        except Exception as error:  # noqa: BLE001 (its caller gets it)
            self.fail(error)
            return
        metrics = self._service.metrics
        metrics.report_tally[ACCEPTED] += 1
        metrics.request_times.observe(ROUTE, _OK, perf_counter() - self._began)
        self._reply.succeed(answer)

    def fail(self, error: Exception) -> None:
        """Answer with an error."""
        if isinstance(error, ProblemError):
            _refuse(self._service, self._reply, error, began=self._began)
            return
        place = {"stream": str(self._stream.identity.name), "writer": self._writer}
        _log.error("request failed", exc_info=error, extra=place)
        self._service.metrics.count_defect()
        error = InternalError("POST note-time")
        _refuse(self._service, self._reply, error, began=self._began)


def _refuse(service: Service, reply: Reply, error: ProblemError, *, began: float) -> None:
    service.metrics.report_tally[error.code] += 1
    service.metrics.request_times.observe(ROUTE, error.status, perf_counter() - began)
    reply.refuse(*write_problem(error))


class NoteTimeApp:
    """Answers ``POST …/writers/{writer}/note-time``.

    Parameters
    ----------
    service
        What takes the reports.
    guard
        Knows who may send them.
    """

    route = ROUTE

    def __init__(self, service: Service, guard: Guard) -> None:
        self._service = service
        self._guard = guard
        self._limit = service.settings.max_body_bytes

    def serves(self, path: str) -> bool:
        """Whether a path is this call's."""
        return _PATH.fullmatch(path) is not None

    def recall(self, scope: Scope) -> RecalledCall | None:
        """Say where requests like this one go; None if they are refused."""
        try:
            caller = self._guard.identify(scope["path"], scope["headers"])
            stream, writer = self._find(scope, caller)
        except ProblemError:
            return None  # the request at hand is told why
        return _Place(self._service, self._guard, caller, ref(stream), writer)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in one report."""
        tally = self._service.metrics.report_tally
        try:
            stream, writer = self._find(scope, scope["user"])
            noted = read_note_time(await read_body(receive, self._limit))
            report = _Report(self._service, stream, writer, noted)
            answer = await self._service.sequencer.submit(report.decide, report.answer)
        except ClientDisconnect:
            raise  # nobody is there to be answered
        except MethodNotAllowedError as error:  # no report
            await send_problem(send, error)
            return
        except ProblemError as error:
            tally[error.code] += 1
            await send_problem(send, error)
            return
        except Exception:
            defect = InternalError(f"POST {scope['path']}")
            tally[defect.code] += 1
            await send_problem(send, defect)
            raise
        tally[ACCEPTED] += 1
        await send_json(send, answer)

    def _find(self, scope: Scope, caller: Caller) -> tuple[StreamState, str]:
        check_post(scope)
        *_, stream_scope, stream, _, writer, _ = scope["path"].split("/")
        try:
            name = StreamName(check_name(stream_scope), check_name(stream))
            check_name(writer)
        except ValueError as error:
            raise InvalidRequestError.of("path", str(error)) from error
        caller.check(Role.WRITE, name.scope)
        state = self._service.stream(name)
        if scope["query_string"]:
            query = read_query(scope["query_string"], {"stream_id"})
            state.check_id(query.get("stream_id"))
        return state, writer
