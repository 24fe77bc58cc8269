"""Calls about reader groups: the shared state, time windows, and readers without a client."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from controller.access import Caller, Role
from controller.cluster import listing
from controller.commit.batch import Batch
from controller.groups import StoredGroup
from controller.http.messages.cursors import read_cursor, write_cursor
from controller.http.routing import (
    CallerOf,
    Cursor,
    Limit,
    ServiceOf,
    StrictRoute,
    stream_facts,
)
from controller.service import Service
from controller.streams import history
from tidegauge.errors import InvalidRequestError, PreconditionRequiredError
from tidegauge.groups import GroupState, advance, go_offline, join_group
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire.groups import (
    CreateGroup,
    GroupInfo,
    GroupList,
    ReaderHeartbeat,
    ReaderJoined,
    ReaderOffline,
    ReaderPosition,
    StateDocument,
    TimeWindowInfo,
    by_segment,
    by_stream,
)
from tidegauge.wire.values import Name

router = APIRouter(route_class=StrictRoute, tags=["reader groups"])
ALL = "/v1/reader-groups"
ONE = ALL + "/{scope}/{group}"
READER = ONE + "/readers/{reader}"


def get_name(
    scope: Annotated[Name, Path(description="Scope of the group.")],
    group: Annotated[Name, Path(description="Name of the group in its scope.")],
) -> StreamName:
    """Read the name that a path gives."""
    return StreamName(scope, group)


GroupName = Annotated[StreamName, Depends(get_name)]
ReaderName = Annotated[Name, Path(description="The reader's name.")]


@router.put(ONE, responses={201: {"model": GroupInfo, "description": "Created."}})
async def create(
    service: ServiceOf,
    caller: CallerOf,
    name: GroupName,
    wanted: CreateGroup,
    response: Response,
) -> GroupInfo:
    """Create a group; the same again changes nothing.

    The caller needs the role `read` in the scopes of its streams, too.
    """
    for stream in wanted.streams:
        _check_reads(caller, stream)
    _check_positions(service, wanted.start_cut or {})
    group, is_new = await service.groups.create(name, wanted)
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = group.etag
    return group.describe()


@router.get(ONE)
async def describe(service: ServiceOf, name: GroupName) -> GroupInfo:
    """Describe a group and its shared state."""
    group = await service.sequencer.read(lambda: service.groups.get(name).newest)
    return group.describe()


@router.delete(ONE, status_code=204, response_class=Response)
async def delete(service: ServiceOf, name: GroupName) -> None:
    """Delete a group; what it retained is free."""
    await service.sequencer.submit(partial(service.groups.delete, name))


@router.get(ALL)
async def list_groups(
    service: ServiceOf, caller: CallerOf, limit: Limit = 100, cursor: Cursor = None
) -> GroupList:
    """List groups in order of name, those in scopes where the caller reads."""
    reads = partial(caller.may, Role.READ)
    after = read_cursor(cursor, StreamName.parse)
    page, more = await listing.page_of_groups(service, after, limit, of=reads)
    return GroupList(groups=page, cursor=write_cursor(page[-1].group) if more else None)


@router.get(ONE + "/state")
async def read_state(service: ServiceOf, name: GroupName, response: Response) -> StateDocument:
    """Read the shared state; its ETag is what a change must name."""

    def look() -> tuple[StateDocument, str]:
        newest = service.groups.get(name).newest
        return StateDocument.of(newest.state), newest.etag

    document, response.headers["etag"] = await service.sequencer.read(look)
    return document


@router.put(ONE + "/state")
async def write_state(
    service: ServiceOf,
    name: GroupName,
    document: StateDocument,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag of the state that was read; required.")
    ] = None,
) -> StateDocument:
    """Write the shared state, unless somebody was faster (412) or it breaks a law (409)."""
    if if_match is None:
        raise PreconditionRequiredError("If-Match")
    group = await _change(service, name, lambda _former: document.to_state(), if_match=if_match)
    response.headers["etag"] = group.etag
    return StateDocument.of(group.state)


@router.get(ONE + "/time-window")
async def time_window(
    service: ServiceOf,
    caller: CallerOf,
    name: GroupName,
    stream: Annotated[str, Query(description="One of the group's streams, scope/stream.")],
) -> TimeWindowInfo:
    """Find the time window of the group: the same for all of its readers."""
    _check_reads(caller, stream)
    group = service.groups.get(name)
    if stream not in group.settings.streams:
        read = ", ".join(group.settings.streams)
        message = f"{stream!r} is not read by the group; it reads {read}"
        raise InvalidRequestError.of("stream", message)
    state = await service.look_at(StreamName.parse(stream))
    state.check_id(group.settings.stream_ids[stream])
    position = await service.sequencer.read(lambda: group.state.position(stream))
    window, _ = await history.at_position(service, state, position)
    return TimeWindowInfo(
        lower=window.lower, upper=window.upper, position=position, **stream_facts(state)
    )


@router.post(READER)
async def join(service: ServiceOf, name: GroupName, reader: ReaderName) -> ReaderJoined:
    """Join, or take over the name from another process."""
    group = await _change(service, name, partial(join_group, reader=reader))
    service.groups.hear(name, reader)
    member = group.state.readers[reader]
    return ReaderJoined(reader=reader, epoch=member.epoch, owned=by_stream(member.owned))


@router.post(READER + "/position", status_code=204, response_class=Response)
async def report_position(
    service: ServiceOf, name: GroupName, reader: ReaderName, report: ReaderPosition
) -> None:
    """Confirm how far a reader has read; nobody has read beyond the tail of a segment."""
    _check_positions(service, report.position)
    transition = partial(
        advance, reader=reader, epoch=report.epoch, offsets=by_segment(report.position)
    )
    await _change(service, name, transition)
    service.groups.hear(name, reader)


@router.post(READER + "/heartbeat", status_code=204, response_class=Response)
async def heartbeat(
    service: ServiceOf, name: GroupName, reader: ReaderName, beat: ReaderHeartbeat
) -> None:
    """Say that a reader lives."""
    check = partial(advance, reader=reader, epoch=beat.epoch, offsets={})
    await service.sequencer.read(lambda: check(service.groups.get(name).state))
    service.groups.hear(name, reader)


@router.delete(READER, status_code=204, response_class=Response)
async def offline(
    service: ServiceOf, name: GroupName, reader: ReaderName, last: ReaderOffline
) -> None:
    """Take a reader offline; its segments go back at its confirmed offsets, or at a position."""
    _check_positions(service, last.position)
    logs = await service.groups.logs(service.groups.get(name).settings)
    transition = partial(
        go_offline,
        reader=reader,
        epoch=last.epoch,
        topologies=logs.topologies,
        position=by_segment(last.position),
    )
    await _change(service, name, transition)


def _check_reads(caller: Caller, stream: str) -> None:
    scope, _, _ = stream.partition("/")
    caller.check(Role.READ, scope)


def _check_positions(service: Service, by_stream: Mapping[str, Position]) -> None:
    for position in by_stream.values():
        service.limits.check_position(position)


async def _change(
    service: Service,
    name: StreamName,
    transition: Callable[[GroupState], GroupState],
    *,
    if_match: str | None = None,
) -> StoredGroup:
    logs = await service.groups.logs(service.groups.get(name).settings)

    def decide(batch: Batch) -> StoredGroup:
        return service.groups.change(name, transition, batch, logs=logs, if_match=if_match)

    changed: StoredGroup = await service.sequencer.submit(decide)
    return changed
