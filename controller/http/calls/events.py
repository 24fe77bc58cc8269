"""Calls about events: append and read."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated, TypeVar

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from controller.http import routing
from controller.http.calls.reporting import ReportingRoute
from controller.http.messages.headers import check_encoding, check_media_type
from controller.log.codec import EncodedEvents, encode_chunks, read_arrow
from controller.log.ndjson import read_ndjson
from controller.log.routing import RoutedEvents, check_keys
from controller.log.times import EventTimes
from controller.streams import appends, reading
from tidegauge.errors import InvalidRequestError, SegmentSealedError
from tidegauge.event_time import parse_event_time
from tidegauge.wire import events as wire
from tidegauge.wire.values import Between, Incarnation, Integer, Name

router = routing.router_of("events")
reporting = routing.router_of("events", ReportingRoute)
ONE = "/v1/streams/{scope}/{stream}"
SEGMENT_EVENTS = ONE + "/segments/{segment}/events"

_T = TypeVar("_T")
_Offset = Annotated[Integer, Between(0)]
_READ_AT_ONCE_BYTES = 16_384
"""Read in the event loop: to hand so little to a thread takes longer than to read it."""

ARROW_BODY = {
    "requestBody": {
        "required": True,
        "description": "An uncompressed Arrow IPC stream with the columns `key` (string), "
        "`event_time` (int64 ms, nullable) and `value` (binary).",
        "content": {wire.ARROW: {"schema": {"type": "string", "format": "binary"}}},
    }
}
NDJSON_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            wire.NDJSON: {
                "schema": {"type": "string"},
                "example": '{"key": "sensor-1", "event_time": 1700000000000, "value": "21.5"}\n',
            }
        },
    }
}


@router.post(SEGMENT_EVENTS, openapi_extra=ARROW_BODY)
async def append(
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    segment: routing.SegmentNumber,
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
) -> wire.Appended:
    """Append events to the segment that owns their keys, exactly once for each sequence number.

    The stream must know the writer: it registers, or notes a time, first.
    """
    state.embedded_log()  # or nothing is read
    append_time = state.now().wall_ms

    def encode(body: bytes) -> tuple[list[EncodedEvents], EventTimes]:
        events = read_arrow(body)
        check_keys(state.published.topology, segment, events)
        chunks = encode_chunks(events, writer=tidegauge_writer, append_time=append_time)
        return chunks, EventTimes.of(events)

    events, times = await read_aside(encode, await read_body(request, wire.ARROW))
    outcome = await sequencer.submit(
        partial(
            appends.append_arrow,
            state=state,
            segment=segment,
            events=events,
            times=times,
            writer=tidegauge_writer,
            incarnation=tidegauge_incarnation,
            sequence=tidegauge_sequence,
        )
    )
    if isinstance(outcome, SegmentSealedError):
        raise outcome
    return wire.Appended(
        segment=segment,
        next_offset=outcome.next_offset,
        sequence=outcome.sequence,
        duplicate=outcome.duplicate,
        hint=appends.hint_of(state, times, tidegauge_writer),
        **routing.stream_facts(state),
    )


@reporting.post(ONE + "/events", openapi_extra=NDJSON_BODY)
async def append_lines(
    sequencer: routing.SequencerOf,
    database: routing.DatabaseOf,
    state: routing.StreamOf,
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
) -> wire.EventsAppended:
    """Append one JSON object a line, routed by key; append and report are one transaction."""
    time = read_time(note_time)
    if writer is None and (note_time is not None or incarnation is not None):
        raise InvalidRequestError.of("writer", "say who notes the time")
    append_time = state.now().wall_ms

    def route_events(body: bytes) -> RoutedEvents:
        events = read_ndjson(body)
        state.embedded_log()
        return appends.route_now(
            state, events, writer=writer, append_time=append_time, lines=body
        )

    body = await read_body(request, wire.NDJSON)
    routed = await read_aside(route_events, body)
    source, key = appends.Source(writer, incarnation, time), idempotency_key
    if key is None:
        append = partial(appends.append_routed, state=state, routed=routed, source=source)
        position = await sequencer.submit(append)
    else:
        position = await appends.append_once_by_key(
            sequencer, database, state, routed, source, idempotency_key=key, body=body
        )
    return wire.EventsAppended(
        position=dict(position),
        hint=appends.hint_of(state, routed.times, writer),
        **routing.stream_facts(state),
    )


@router.get(
    SEGMENT_EVENTS,
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "An Arrow IPC stream of whole chunks; the header "
            f"`{wire.FIRST_OFFSET_HEADER}` is the offset of its first event, at or before `start`.",
            "content": {wire.ARROW: {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def read(
    database: routing.DatabaseOf,
    waiting: routing.WaitingOf,
    state: routing.StreamOf,
    segment: routing.SegmentNumber,
    request: Request,
    start: Annotated[
        _Offset | None,
        Query(
            description="Offset of the first event; default: the first that is not truncated."
        ),
    ] = None,
    end: Annotated[
        _Offset | None, Query(description="Offset after the last; default: the tail.")
    ] = None,
    wait_ms: routing.WaitMs = 0,
) -> Response:
    """Read events of a segment; at the tail, wait for more.

    Besides what was appended they have the columns `append_time` (int64 ms) and `writer` (string),
    null if nobody was named.
    """
    begin, _ = reading.check_range(state, segment, start, end)

    def has_more() -> bool | None:
        grown = state.durable_tails.get(segment, 0) > begin
        return grown or state.final or state.deleted or None

    if end != begin:
        await waiting.until(state.changed, has_more, wait_ms=wait_ms, receive=request.receive)
    first, body = await reading.open_read(
        database, state, segment, *reading.check_range(state, segment, begin, end)
    )
    headers = {
        wire.FIRST_OFFSET_HEADER: str(first),
        wire.STREAM_ID_HEADER: state.identity.stream_id,
    }
    return StreamingResponse(body, media_type=wire.ARROW, headers=headers)


def read_time(note_time: str | None) -> int | None:
    """Read the time of a report that the query carries."""
    try:
        return None if note_time is None else parse_event_time(note_time)
    except ValueError as error:
        raise InvalidRequestError.of("note_time", str(error)) from error


async def read_aside(work: Callable[[bytes], _T], body: bytes) -> _T:
    """Read a body in a thread if it is large, so that others are served meanwhile."""
    if len(body) <= _READ_AT_ONCE_BYTES:
        return work(body)
    return await asyncio.to_thread(work, body)


async def read_body(request: Request, expected: str) -> bytes:
    """Read a body that says that it is what is expected."""
    check_media_type(request.headers.get("content-type", ""), expected)
    check_encoding(",".join(request.headers.getlist("content-encoding")))
    return await request.body()
