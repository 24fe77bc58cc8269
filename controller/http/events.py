"""Calls about events: append and read."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from controller.http.routing import ServiceOf, StreamOf, StrictRoute, WaitMs, stream_facts
from controller.log import service as log
from controller.log.codec import read_arrow, read_ndjson
from controller.log.state import AppendOutcome
from tidegauge.errors import InvalidRequestError, UnsupportedMediaTypeError
from tidegauge.event_time import parse_event_time
from tidegauge.wire.events import ARROW, FIRST_OFFSET_HEADER, NDJSON, Appended, EventsAppended
from tidegauge.wire.values import Name

router = APIRouter(route_class=StrictRoute, tags=["events"])
ONE = "/v1/streams/{scope}/{stream}"
SEGMENT_EVENTS = ONE + "/segments/{segment}/events"

_ARROW_BODY = {
    "requestBody": {
        "required": True,
        "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
    }
}
_NDJSON_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            NDJSON: {
                "schema": {"type": "string"},
                "example": '{"key": "sensor-1", "event_time": 1700000000000, "value": "21.5"}\n',
            }
        },
    }
}


@router.post(SEGMENT_EVENTS, openapi_extra=_ARROW_BODY)
async def append(  # noqa: PLR0913 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    segment: int,
    request: Request,
    tidegauge_writer: Annotated[Name, Header(description="The writer's name.")],
    tidegauge_incarnation: Annotated[
        int, Header(ge=1, description="From its registration.")
    ],
    tidegauge_sequence: Annotated[
        int, Header(ge=1, description="1, 2, 3 … for each writer, incarnation and segment.")
    ],
) -> Appended:
    """Append events to a segment, exactly once for each sequence number."""
    events = read_arrow(await _body(request, ARROW))
    outcome: AppendOutcome = await service.sequencer.submit(
        partial(
            log.append_arrow,
            state=state,
            segment=segment,
            events=events,
            writer=tidegauge_writer,
            incarnation=tidegauge_incarnation,
            sequence=tidegauge_sequence,
        )
    )
    return Appended(
        segment=segment,
        next_offset=outcome.next_offset,
        sequence=outcome.sequence,
        duplicate=outcome.duplicate,
        **stream_facts(state),
    )


@router.post(ONE + "/events", openapi_extra=_NDJSON_BODY)
async def append_lines(  # noqa: PLR0913 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    request: Request,
    writer: Annotated[Name | None, Query(description="Who writes.")] = None,
    note_time: Annotated[
        str | None, Query(description="A time to note with the append; needs `writer`.")
    ] = None,
    incarnation: Annotated[
        int | None, Query(ge=0, description="From the writer's registration.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=255, description="Repeated, it gets the same answer."),
    ] = None,
) -> EventsAppended:
    """Append one JSON object a line, routed by key; append and report are one transaction."""
    events = read_ndjson(await _body(request, NDJSON))
    source = log.Source(writer, incarnation, _time(note_time))
    if source.writer is None and (note_time is not None or incarnation is not None):
        raise InvalidRequestError.of("writer", "say who notes the time")
    if idempotency_key is not None:
        return await log.append_once_by_key(
            service, state, events, source, idempotency_key=idempotency_key
        )
    position = await service.sequencer.submit(
        partial(log.append_routed, service=service, state=state, events=events, source=source)
    )
    return log.appended_answer(state, position)


@router.get(
    SEGMENT_EVENTS,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "An Arrow IPC stream of whole chunks; the header "
            f"`{FIRST_OFFSET_HEADER}` is the offset of its first event, at or before `start`.",
            "content": {ARROW: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def read(  # noqa: PLR0913 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    segment: int,
    start: Annotated[int, Query(ge=0, description="Offset of the first event.")] = 0,
    end: Annotated[
        int | None, Query(ge=0, description="Offset after the last; default: the tail.")
    ] = None,
    wait_ms: WaitMs = 0,
) -> Response:
    """Read events of a segment; at the tail, wait for more."""
    log.check_range(state, segment, start, end)

    def has_more() -> bool | None:
        tail = (state.published_tails or {}).get(segment, 0)
        return tail > start or state.final or state.deleted or None

    await state.bell.until(has_more, wait_ms=wait_ms)
    first, body = await log.first_page(
        service, state, segment, *log.check_range(state, segment, start, end)
    )
    return StreamingResponse(
        body, media_type=ARROW, headers={FIRST_OFFSET_HEADER: str(first)}
    )


async def _body(request: Request, expected: str) -> bytes:
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type != expected:
        raise UnsupportedMediaTypeError(content_type, expected)
    return await request.body()


def _time(text: str | None) -> int | None:
    try:
        return None if text is None else parse_event_time(text)
    except ValueError as error:
        raise InvalidRequestError.of("note_time", str(error)) from error
