"""The hot path: one report a request.

It is a plain ASGI application in front of the others. `documentation` describes it in OpenAPI.
"""

import re

from fastapi.routing import APIRoute
from starlette.types import Receive, Scope

from controller.access.callers import Role
from controller.commit.batch import Batch
from controller.http.calls.reporting import Reports, ReportsApp
from controller.http.calls.writers import WRITERS
from controller.http.messages.decoding import read_note_time
from controller.http.messages.headers import check_announced
from controller.http.messages.plain import check_post, read_body, read_query
from controller.http.routing import StreamOf, WriterName, router_of, stream_facts
from controller.streams import reports
from controller.streams.stream import StreamState
from tidegauge.aggregation.intake import TimeReport
from tidegauge.errors import InvalidRequestError
from tidegauge.names import StreamName, check_name
from tidegauge.states import WriterState
from tidegauge.wire.writers import NoteTime, TimeNoted

documentation = router_of("writers", APIRoute)
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
        # Nearly all answers: to write them by a model takes ten times as long.
        return b'{"stream_id":"%s","watermark":%d,"final":false,"state":"%s","hint":null}' % (
            stream.identity.stream_id.encode(),
            watermark,
            state.encode(),
        )
    noted = TimeNoted(**stream_facts(stream), state=state, hint=hint)
    return noted.model_dump_json().encode()


class _Report(Reports):
    """One report on its way through a batch."""

    def __init__(self, stream: StreamState, writer: str, report: TimeReport) -> None:
        self._stream = stream
        self._writer = writer
        self._report = report

    def decide(self, batch: Batch) -> None:
        """Apply the report."""
        stream = self._stream
        reports.note_time(batch, stream, self._writer, self._report, now=stream.now())

    def answer(self) -> bytes:
        """Return what is durable now."""
        stream = self._stream
        hint = reports.seconds_hint(stream, self._report.time)
        return write_noted(stream, stream.aggregator.state(self._writer), hint)


class NoteTimeApp(ReportsApp):
    """Answers ``POST …/writers/{writer}/note-time``."""

    route = ROUTE

    def serves(self, path: str) -> bool:
        """Return whether a path is this call's."""
        # Most paths differ in their end, which is compared ten times as quickly.
        return path.endswith("/note-time") and _PATH.fullmatch(path) is not None

    async def _read(self, scope: Scope, receive: Receive) -> _Report:
        check_post(scope)
        *_, stream_scope, stream, _, writer, _ = scope["path"].split("/")
        try:
            name = StreamName(check_name(stream_scope), check_name(stream))
            check_name(writer)
        except ValueError as error:
            raise InvalidRequestError.of("path", str(error)) from error
        scope["user"].check(Role.WRITE, name.scope)
        state = self._registry.get(name)
        if scope["query_string"]:
            query = read_query(scope["query_string"], {"stream_id"})
            state.check_id(query.get("stream_id"))
        limit = self._max_report_bytes
        check_announced(scope, limit, _LIMIT)
        report = read_note_time(await read_body(receive, limit, _LIMIT))
        return _Report(state, writer, report)
