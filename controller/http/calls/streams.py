"""Calls about streams: create, describe, change, list, scale, truncate, seal, delete."""

import gzip
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query, Request, Response

from controller.http import routing
from controller.overview import Asked
from controller.streams import lifecycle
from controller.streams.truncation import truncate_at_cut, truncate_at_time
from tidegauge.errors import InvalidRequestError, PreconditionRequiredError
from tidegauge.explain.states import State
from tidegauge.names import StreamName
from tidegauge.wire import streams as wire

router = routing.router_of("streams")
ONE = "/v1/streams/{scope}/{stream}"


@router.put(ONE, responses={201: {"model": wire.StreamInfo, "description": "Created."}})
async def create_stream(
    registry: routing.RegistryOf,
    sequencer: routing.SequencerOf,
    scope: routing.ScopeName,
    stream: routing.NameInScope,
    settings: wire.CreateStream,
    response: Response,
    if_none_match: Annotated[
        str | None, Header(description="`*`: only create; 412 if it is there.")
    ] = None,
) -> wire.StreamInfo:
    """Create a stream; repeating the call changes nothing."""
    if if_none_match not in {None, "*"}:
        raise InvalidRequestError.of("If-None-Match", "send * or leave it out")
    state, is_new = await sequencer.submit(
        partial(
            lifecycle.create_stream,
            registry=registry,
            name=StreamName(scope, stream),
            request=settings,
            only_create=if_none_match is not None,
        )
    )
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.get(ONE)
async def describe_stream(state: routing.StreamOf, response: Response) -> wire.StreamInfo:
    """Describe a stream: settings, topology, watermark and tail."""
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.patch(ONE)
async def change_stream(
    sequencer: routing.SequencerOf,
    state: routing.StreamOf,
    settings: wire.ChangeStream,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag of the settings that you read; required.")
    ] = None,
) -> wire.StreamInfo:
    """Change settings; what you leave out stays as it is, and null is a value."""
    if if_match is None:
        raise PreconditionRequiredError("If-Match")
    await sequencer.submit(
        partial(lifecycle.change_stream, state=state, change=settings, if_match=if_match)
    )
    response.headers["etag"] = lifecycle.etag(state)
    return lifecycle.describe(state)


@router.delete(ONE, status_code=204, response_class=Response)
async def delete_stream(sequencer: routing.SequencerOf, state: routing.StreamOf) -> None:
    """Delete a stream with its events, marks and writers."""
    await sequencer.submit(partial(lifecycle.delete_stream, state=state))


async def _asked(
    caller: routing.CallerOf,
    order: Annotated[
        Literal["name", "trouble"],
        Query(
            description="`trouble`: one page, trouble first, brief and explained; it may be as old "
            "as `judged_ms` says."
        ),
    ] = "name",
    q: Annotated[
        str,
        Query(
            max_length=255,
            description="With `order=trouble`: part of the name of a stream, or of the writer that "
            "holds it.",
        ),
    ] = "",
    state: Annotated[
        State | None, Query(description="With `order=trouble`: only streams in this state.")
    ] = None,
    *,
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> Asked:
    """Read who asks for a list, and in which order."""
    if order == "trouble":
        if cursor is not None:
            raise InvalidRequestError.of("cursor", "order=trouble has one page; leave it out")
        return Asked(caller, limit, q.lower(), state)
    if q or state is not None:
        name = "q" if q else "state"
        raise InvalidRequestError.of(name, "is for order=trouble; send that, too")
    return Asked(caller, limit, trouble=False)


@router.get(
    "/v1/streams",
    response_model=wire.StreamList | wire.BriefStreamList | wire.JudgedStreamList,
)
async def list_streams(
    request: Request,
    listing: routing.ListingOf,
    overview: routing.OverviewOf,
    clocks: routing.ClocksOf,
    asked: Annotated[Asked, Depends(_asked)],
    *,
    brief: Annotated[bool, Query(description="Leave settings and segments out.")] = False,
    explain: Annotated[
        bool, Query(description="Say of each stream in short why its watermark is where it is.")
    ] = False,
    cursor: routing.Cursor = None,
) -> Response:
    """List streams in order of name, or trouble first, those in scopes where the caller has a role."""
    if asked.trouble:
        page, headers = await overview.page(asked), {"vary": "accept-encoding"}
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["content-encoding"] = "gzip"
        else:
            page = gzip.decompress(page)
        return Response(page, media_type="application/json", headers=headers)
    after, of = routing.read_cursor(cursor, StreamName.parse), asked.caller.roles
    pages: Any = listing.streams_in_short if brief else listing.streams
    listed, more = await pages(after, asked.limit, of=of)
    answer = wire.BriefStreamList if brief else wire.StreamList
    found = answer.model_construct(
        streams=await listing.explained(listed) if explain else listed,
        cursor=routing.write_cursor(listed[-1].stream) if more else None,
        now_ms=clocks.now().wall_ms,
    )
    # FastAPI would make a document of a thousand streams first, and JSON of that.
    return Response(found.model_dump_json(), media_type="application/json")


@router.post(ONE + "/scale")
async def scale(
    sequencer: routing.SequencerOf, state: routing.StreamOf, scaling: wire.ScaleStream
) -> wire.ScaledStream:
    """Seal segments and let others own their keys; repeating the call changes nothing.

    Writers go on in the new segments, readers come to them once they have read what was sealed.
    """
    added = await sequencer.submit(
        partial(lifecycle.scale_stream, state=state, request=scaling)
    )
    topology = state.published.topology
    return wire.ScaledStream(
        segments=[wire.SegmentInfo.of(topology[number]) for number in added],
        topology=state.descriptions.of(topology),
        **routing.stream_facts(state),
    )


@router.post(ONE + "/truncate")
async def truncate(
    database: routing.DatabaseOf, state: routing.StreamOf, truncation: wire.TruncateStream
) -> wire.TruncatedStream:
    """Drop the first events of a stream; dropped events do not return.

    Refused while a reader group or one of its named checkpoints needs them, unless forced.
    """
    force = truncation.force
    if (truncation.cut is None) == (truncation.time is None):
        raise InvalidRequestError.of("cut", "send either cut or time")
    if truncation.cut is not None:
        await truncate_at_cut(database, state, truncation.cut, force=force)
    elif truncation.time is not None:
        await truncate_at_time(database, state, truncation.time, force=force)
    return wire.TruncatedStream(
        first_cut=state.published.first_cut or {}, **routing.stream_facts(state)
    )


@router.post(ONE + "/seal")
async def seal(
    sequencer: routing.SequencerOf, state: routing.StreamOf, end: wire.SealStream | None = None
) -> wire.SealedStream:
    """End a stream with its final mark; repeating the call returns the same mark."""
    position = None if end is None else end.position
    final = await sequencer.submit(
        partial(lifecycle.seal_stream, state=state, position=position)
    )
    return wire.SealedStream(mark=wire.MarkInfo.of(final), **routing.stream_facts(state))
