"""Calls about events: append and read."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from controller.http.calls.reporting import ReportingRoute
from controller.http.messages.media import check_encoding, check_media_type
from controller.http.routing import (
    HungUp,
    SegmentNumber,
    ServiceOf,
    StreamOf,
    StrictRoute,
    WaitMs,
    stream_facts,
)
from controller.log.codec import EncodedEvents, encode_chunks, read_arrow
from controller.log.ndjson import read_ndjson
from controller.log.routing import RoutedEvents, check_keys, route
from controller.log.state import AppendOutcome
from controller.streams import appends as log
from controller.streams import reading
from controller.streams.stream import StreamState
from tidegauge.errors import (
    InvalidRequestError,
)
from tidegauge.event_time import parse_event_time
from tidegauge.wire.events import (
    ARROW,
    FIRST_OFFSET_HEADER,
    NDJSON,
    STREAM_ID_HEADER,
    Appended,
    EventsAppended,
)
from tidegauge.wire.values import Between, Incarnation, Integer, Name

router = APIRouter(route_class=StrictRoute, tags=["events"])
reporting = APIRouter(route_class=ReportingRoute, tags=["events"])
ONE = "/v1/streams/{scope}/{stream}"
SEGMENT_EVENTS = ONE + "/segments/{segment}/events"

_T = TypeVar("_T")
_Offset = Annotated[Integer, Between(0)]
_READ_AT_ONCE_BYTES = 16_384

_ARROW_BODY = {
    "requestBody": {
        "required": True,
        "description": "An uncompressed Arrow IPC stream with the columns `key` (string), "
        "`event_time` (int64 ms, nullable) and `value` (binary).",
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
async def append(  # noqa: PLR0913, PLR0917 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    segment: SegmentNumber,
    request: Request,
    tidegauge_writer: Annotated[Name, Header(description="The writer's name.")],
    tidegauge_sequence: Annotated[
        Integer,
        Between(1),
        Header(description="1, 2, 3 … for each writer, incarnation and segment."),
    ],
    tidegauge_incarnation: Annotated[
        Incarnation | None,
        Header(description="From its registration; left out by writers that never registered."),
    ] = None,
) -> Appended:
    """Append events to the segment that owns their keys, exactly once for each sequence number.

    The stream must know the writer: it registers, or notes a time, first.
    """
    log.ends_of(state)
    body = await _body(request, ARROW)
    events = await _aside(partial(_encoded, state, segment), body)
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


@reporting.post(ONE + "/events", openapi_extra=_NDJSON_BODY)
async def append_lines(  # noqa: PLR0913, PLR0917 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    request: Request,
    writer: Annotated[Name | None, Query(description="Who writes.")] = None,
    note_time: Annotated[
        str | None, Query(description="A time to note with the append; needs `writer`.")
    ] = None,
    incarnation: Annotated[
        Incarnation | None, Query(description="From the writer's registration.")
    ] = None,
    idempotency_key: Annotated[
        str | None,
        Header(min_length=1, max_length=255, description="Repeated, it gets the same answer."),
    ] = None,
) -> EventsAppended:
    """Append one JSON object a line, routed by key; append and report are one transaction."""
    source = log.Source(writer, incarnation, _time(note_time))
    if source.writer is None and (note_time is not None or incarnation is not None):
        raise InvalidRequestError.of("writer", "say who notes the time")
    body = await _body(request, NDJSON)
    routed = await _aside(partial(_routed, state), body)
    if idempotency_key is not None:
        position = await log.append_once_by_key(
            service, state, routed, source, idempotency_key=idempotency_key, body=body
        )
    else:
        position = await service.sequencer.submit(
            partial(
                log.append_routed, service=service, state=state, routed=routed, source=source
            )
        )
    return EventsAppended(position=dict(position), **stream_facts(state))


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
async def read(  # noqa: PLR0913, PLR0917 (parts of one request)
    service: ServiceOf,
    state: StreamOf,
    segment: SegmentNumber,
    hung_up: HungUp,
    start: Annotated[_Offset, Query(description="Offset of the first event.")] = 0,
    end: Annotated[
        _Offset | None, Query(description="Offset after the last; default: the tail.")
    ] = None,
    wait_ms: WaitMs = 0,
) -> Response:
    """Read events of a segment; at the tail, wait for more."""
    reading.check_range(state, segment, start, end)

    def has_more() -> bool | None:
        grown = reading.durable_tail(state, segment) > start
        return grown or state.final or state.deleted or None

    if end != start:
        await service.waiting.until(state.changed, has_more, wait_ms=wait_ms, hung_up=hung_up)
    first, body = await reading.open_read(
        service, state, segment, *reading.check_range(state, segment, start, end)
    )
    headers = {FIRST_OFFSET_HEADER: str(first), STREAM_ID_HEADER: state.identity.stream_id}
    return StreamingResponse(body, media_type=ARROW, headers=headers)


async def _aside(work: Callable[[bytes], _T], body: bytes) -> _T:
    """Read a body in a thread if it is large, so that others are served meanwhile."""
    if len(body) <= _READ_AT_ONCE_BYTES:
        return work(body)
    return await asyncio.to_thread(work, body)


def _encoded(state: StreamState, segment: int, body: bytes) -> list[EncodedEvents]:
    events = read_arrow(body)
    check_keys(state.published_topology, segment, events)
    return encode_chunks(events)


def _routed(state: StreamState, body: bytes) -> RoutedEvents:
    events = read_ndjson(body)
    log.ends_of(state)
    topology = state.published_topology
    if state.final:  # nothing is appended, but an answer may be repeated
        return RoutedEvents(events, topology.revision, {})
    return route(topology, events)


async def _body(request: Request, expected: str) -> bytes:
    check_media_type(request.headers.get("content-type", ""), expected)
    check_encoding(",".join(request.headers.getlist("content-encoding")))
    return await request.body()


def _time(text: str | None) -> int | None:
    try:
        return None if text is None else parse_event_time(text)
    except ValueError as error:
        raise InvalidRequestError.of("note_time", str(error)) from error
