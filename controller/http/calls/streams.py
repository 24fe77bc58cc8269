"""Calls about streams: create, describe, change, list, seal, delete."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Response

from controller.cluster import listing
from controller.http.messages.cursors import read_cursor, write_cursor
from controller.http.routing import (
    CallerOf,
    Cursor,
    Limit,
    NameInScope,
    ScopeName,
    ServiceOf,
    StreamOf,
    StrictRoute,
    stream_facts,
)
from controller.streams import lifecycle
from controller.streams.stream import StreamState
from tidegauge.errors import InvalidRequestError, PreconditionRequiredError
from tidegauge.names import StreamName
from tidegauge.wire.streams import (
    ChangeStream,
    CreateStream,
    MarkInfo,
    SealedStream,
    SealStream,
    StreamInfo,
    StreamList,
)

router = APIRouter(route_class=StrictRoute, tags=["streams"])
ONE = "/v1/streams/{scope}/{stream}"


@router.put(ONE, responses={201: {"model": StreamInfo, "description": "Created."}})
async def create(  # noqa: PLR0913, PLR0917 (parts of one request)
    service: ServiceOf,
    scope: ScopeName,
    stream: NameInScope,
    wanted: CreateStream,
    response: Response,
    if_none_match: Annotated[
        str | None, Header(description="`*`: only create; 412 if it is there.")
    ] = None,
) -> StreamInfo:
    """Create a stream; the same again changes nothing."""
    if if_none_match not in {None, "*"}:
        raise InvalidRequestError.of("If-None-Match", "send * or leave it out")
    created: tuple[StreamState, bool] = await service.sequencer.submit(
        partial(
            lifecycle.create_stream,
            service=service,
            name=StreamName(scope, stream),
            wanted=wanted,
            only_create=if_none_match is not None,
            key=await service.ownership.new_stream_key(),
        )
    )
    state, is_new = created
    lifecycle.check_stored(state)
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.get(ONE)
async def describe(state: StreamOf, response: Response) -> StreamInfo:
    """Describe a stream: settings, topology, watermark and tail."""
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.patch(ONE)
async def change(
    service: ServiceOf,
    state: StreamOf,
    settings: ChangeStream,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag of the settings that you read; required.")
    ] = None,
) -> StreamInfo:
    """Change settings: left out is unchanged, null is the value null."""
    if if_match is None:
        raise PreconditionRequiredError("If-Match")
    await service.sequencer.submit(
        partial(lifecycle.change_stream, state=state, change=settings, if_match=if_match)
    )
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.delete(ONE, status_code=204, response_class=Response)
async def delete(service: ServiceOf, state: StreamOf) -> None:
    """Delete a stream with its events, marks and writers."""
    await service.sequencer.submit(partial(lifecycle.delete_stream, state=state))


@router.get("/v1/streams")
async def list_streams(
    service: ServiceOf, caller: CallerOf, limit: Limit = 100, cursor: Cursor = None
) -> StreamList:
    """List streams in order of name, those in scopes where the caller has a role."""
    after = read_cursor(cursor, StreamName.parse)
    page, more = await listing.page_of_streams(service, after, limit, of=caller.roles)
    return StreamList(streams=page, cursor=write_cursor(page[-1].stream) if more else None)


@router.post(ONE + "/seal")
async def seal(
    service: ServiceOf, state: StreamOf, end: SealStream | None = None
) -> SealedStream:
    """End a stream with its final mark; sealed again, it answers the same mark."""
    position = None if end is None else end.position
    final = await service.sequencer.submit(
        partial(lifecycle.seal_stream, service=service, state=state, position=position)
    )
    return SealedStream(mark=MarkInfo.of(final), **stream_facts(state))
