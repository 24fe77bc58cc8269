"""The hot path: one report a request, answered without a framework in between.

It is a plain ASGI application in front of the others. `documentation` describes it in OpenAPI.
"""

import re

from fastapi import APIRouter
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from controller.access import Caller, Role
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.http.calls.writers import WRITERS
from controller.http.messages.decoding import read_note_time
from controller.http.messages.plain import (
    check_announced,
    check_post,
    read_body,
    read_query,
    send_json,
)
from controller.http.messages.problems import send_problem
from controller.http.routing import StreamOf, WriterName, stream_facts
from controller.metrics.counters import ACCEPTED, Metrics
from controller.streams import reports
from controller.streams.registry import Registry
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
_LIMIT = "max_report_bytes"


@documentation.post(ROUTE)
async def note_time(state: StreamOf, writer: WriterName, report: NoteTime) -> TimeNoted:  # type: ignore[empty-body]
    """Promise that what the writer writes after a position is at or above a time."""


def write_noted(stream: StreamState, state: WriterState, hint: str | None) -> bytes:
    """Write the answer to a report, a `TimeNoted`, of what is durable now."""
    watermark = stream.watermark
    if hint is None and watermark is not None and not stream.final:
        return b'{"stream_id":"%s","watermark":%d,"state":"%s","final":false,"hint":null}' % (
            stream.identity.stream_id.encode(),
            watermark,
            state.encode(),
        )
    noted = TimeNoted(**stream_facts(stream), state=state, hint=hint)
    return noted.model_dump_json().encode()


class _Report:
    """One report on its way through a batch."""

    __slots__ = ("_report", "_stream", "_writer")

    def __init__(self, stream: StreamState, writer: str, report: TimeReport) -> None:
        self._stream = stream
        self._writer = writer
        self._report = report

    def decide(self, batch: Batch) -> None:
        """Take in the report."""
        stream = self._stream
        reports.note_time(batch, stream, self._writer, self._report, now=stream.now())

    def answer(self) -> bytes:
        """Say what is durable now."""
        stream = self._stream
        hint = reports.seconds_hint(stream, self._report.time)
        return write_noted(stream, stream.aggregator.state(self._writer), hint)


class NoteTimeApp:
    """Answers ``POST …/writers/{writer}/note-time``.

    Parameters
    ----------
    registry
        The streams.
    sequencer
        Takes the reports.
    metrics
        Count them.
    max_report_bytes
        Longer ones are refused.
    """

    route = ROUTE

    def __init__(
        self,
        registry: Registry,
        sequencer: Sequencer,
        metrics: Metrics,
        *,
        max_report_bytes: int,
    ) -> None:
        self._registry = registry
        self._sequencer = sequencer
        self._metrics = metrics
        self._limit = max_report_bytes

    def serves(self, path: str) -> bool:
        """Whether a path is this call's."""
        # Most paths are told apart by their end, ten times as quickly.
        return path.endswith("/note-time") and _PATH.fullmatch(path) is not None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Take in one report."""
        tally = self._metrics.report_tally
        try:
            stream, writer = self._find(scope, scope["user"])
            check_announced(scope, self._limit, _LIMIT)
            noted = read_note_time(await read_body(receive, self._limit, _LIMIT))
            report = _Report(stream, writer, noted)
            answer = await self._sequencer.submit(report.decide, report.answer)
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
        state = self._registry.get(name)
        if scope["query_string"]:
            query = read_query(scope["query_string"], {"stream_id"})
            state.check_id(query.get("stream_id"))
        return state, writer
