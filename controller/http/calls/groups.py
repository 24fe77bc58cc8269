"""Calls about reader groups: the shared state, time windows, and readers without a client."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Depends, Header, Path, Query, Response

from controller.access.callers import Caller, Role
from controller.access.limits import Limits
from controller.commit.batch import Batch
from controller.groups import StoredGroup, read_logs
from controller.http import routing
from controller.http.messages.cursors import read_cursor, write_cursor
from controller.streams import history
from tidegauge.errors import InvalidRequestError, PreconditionRequiredError
from tidegauge.groups import GroupState, advance, go_offline, join_group
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire import groups as wire
from tidegauge.wire.values import Name

router = APIRouter(route_class=routing.StrictRoute, tags=["reader groups"])
ALL = "/v1/reader-groups"
ONE = ALL + "/{scope}/{group}"
READER = ONE + "/readers/{reader}"


async def get_name(
    scope: Annotated[Name, Path(description="Scope of the group.")],
    group: Annotated[Name, Path(description="Name of the group in its scope.")],
) -> StreamName:
    """Read the name that a path gives."""
    return StreamName(scope, group)


Transition: TypeAlias = Callable[[GroupState], GroupState]


async def get_change(
    groups: routing.GroupsOf, registry: routing.RegistryOf, sequencer: routing.SequencerOf
) -> Callable[..., Awaitable[StoredGroup]]:
    """Change groups as `Groups.change` does, by the logs as they are now."""

    async def change(
        name: StreamName, transition: Transition, *, if_match: str | None = None
    ) -> StoredGroup:
        logs = await read_logs(registry, groups.get(name).settings)

        def decide(batch: Batch) -> StoredGroup:
            return groups.change(name, transition, batch, logs=logs, if_match=if_match)

        return await sequencer.submit(decide)

    return change


ChangeOf = Annotated[Callable[..., Awaitable[StoredGroup]], Depends(get_change)]
GroupName = Annotated[StreamName, Depends(get_name)]
ReaderName = Annotated[Name, Path(description="The reader's name.")]


@router.put(ONE, responses={201: {"model": wire.GroupInfo, "description": "Created."}})
async def create(  # noqa: PLR0913, PLR0917 (parts of one request)
    creation: routing.GroupCreationOf,
    limits: routing.LimitsOf,
    caller: routing.CallerOf,
    name: GroupName,
    settings: wire.CreateGroup,
    response: Response,
) -> wire.GroupInfo:
    """Create a group; the same again changes nothing.

    The caller needs the role `read` in the scopes of its streams, too.
    """
    for stream in settings.streams:
        _check_reads(caller, stream)
    _check_positions(limits, settings.start_cut or {})
    group, is_new = await creation.create(name, settings)
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = group.etag
    return group.describe()


@router.get(ONE)
async def describe(
    groups: routing.GroupsOf, sequencer: routing.SequencerOf, name: GroupName
) -> wire.GroupInfo:
    """Describe a group and its shared state."""
    group = await sequencer.read(lambda: groups.get(name).newest)
    return group.describe()


@router.delete(ONE, status_code=204, response_class=Response)
async def delete(
    groups: routing.GroupsOf, sequencer: routing.SequencerOf, name: GroupName
) -> None:
    """Delete a group; what it retained is free."""
    await sequencer.submit(partial(groups.delete, name))


@router.get(ALL)
async def list_groups(
    listing: routing.ListingOf,
    caller: routing.CallerOf,
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> wire.GroupList:
    """List groups in order of name, those in scopes where the caller reads."""
    reads = partial(caller.may, Role.READ)
    after = read_cursor(cursor, StreamName.parse)
    page, more = await listing.groups(after, limit, of=reads)
    return wire.GroupList(groups=page, cursor=write_cursor(page[-1].group) if more else None)


@router.get(ONE + "/state")
async def read_state(
    groups: routing.GroupsOf,
    sequencer: routing.SequencerOf,
    name: GroupName,
    response: Response,
) -> wire.StateDocument:
    """Read the shared state; its ETag is what a change must name."""

    def look() -> tuple[wire.StateDocument, str]:
        newest = groups.get(name).newest
        return wire.StateDocument.of(newest.state), newest.etag

    document, response.headers["etag"] = await sequencer.read(look)
    return document


@router.put(ONE + "/state")
async def write_state(
    change: ChangeOf,
    name: GroupName,
    document: wire.StateDocument,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag of the state that was read; required.")
    ] = None,
) -> wire.StateDocument:
    """Write the shared state, unless somebody was faster (412) or it breaks a law (409)."""
    if if_match is None:
        raise PreconditionRequiredError("If-Match")
    group = await change(name, lambda _former: document.to_state(), if_match=if_match)
    response.headers["etag"] = group.etag
    return wire.StateDocument.of(group.state)


@router.get(ONE + "/time-window")
async def time_window(  # noqa: PLR0913, PLR0917 (parts of one request)
    groups: routing.GroupsOf,
    registry: routing.RegistryOf,
    sequencer: routing.SequencerOf,
    database: routing.DatabaseOf,
    caller: routing.CallerOf,
    name: GroupName,
    stream: Annotated[str, Query(description="One of the group's streams, scope/stream.")],
) -> wire.TimeWindowInfo:
    """Find the time window of the group: the same for all of its readers."""
    _check_reads(caller, stream)
    group = groups.get(name)
    if stream not in group.settings.streams:
        read = ", ".join(group.settings.streams)
        message = f"{stream!r} is not read by the group; it reads {read}"
        raise InvalidRequestError.of("stream", message)
    state = await registry.look_at(StreamName.parse(stream))
    state.check_id(group.settings.stream_ids[stream])
    position = await sequencer.read(lambda: group.state.position(stream))
    window, _ = await history.at_position(database, state, position)
    return wire.TimeWindowInfo(
        lower=window.lower, upper=window.upper, position=position, **routing.stream_facts(state)
    )


@router.post(READER)
async def join(
    change: ChangeOf, groups: routing.GroupsOf, name: GroupName, reader: ReaderName
) -> wire.ReaderJoined:
    """Join, or take over the name from another process."""
    group = await change(name, partial(join_group, reader=reader))
    groups.hear(name, reader)
    member = group.state.readers[reader]
    return wire.ReaderJoined(
        reader=reader, epoch=member.epoch, owned=wire.by_stream(member.owned)
    )


@router.post(READER + "/position", status_code=204, response_class=Response)
async def report_position(  # noqa: PLR0913, PLR0917 (parts of one request)
    change: ChangeOf,
    groups: routing.GroupsOf,
    limits: routing.LimitsOf,
    name: GroupName,
    reader: ReaderName,
    report: wire.ReaderPosition,
) -> None:
    """Confirm how far a reader has read; nobody has read beyond the tail of a segment."""
    _check_positions(limits, report.position)
    transition = partial(
        advance, reader=reader, epoch=report.epoch, offsets=wire.by_segment(report.position)
    )
    await change(name, transition)
    groups.hear(name, reader)


@router.post(READER + "/heartbeat", status_code=204, response_class=Response)
async def heartbeat(
    groups: routing.GroupsOf,
    sequencer: routing.SequencerOf,
    name: GroupName,
    reader: ReaderName,
    beat: wire.ReaderHeartbeat,
) -> None:
    """Say that a reader lives."""
    check = partial(advance, reader=reader, epoch=beat.epoch, offsets={})
    await sequencer.read(lambda: check(groups.get(name).state))
    groups.hear(name, reader)


@router.delete(READER, status_code=204, response_class=Response)
async def offline(  # noqa: PLR0913, PLR0917 (parts of one request)
    change: ChangeOf,
    groups: routing.GroupsOf,
    registry: routing.RegistryOf,
    limits: routing.LimitsOf,
    name: GroupName,
    reader: ReaderName,
    last: wire.ReaderOffline,
) -> None:
    """Take a reader offline; its segments go back at its confirmed offsets, or at a position."""
    _check_positions(limits, last.position)
    logs = await read_logs(registry, groups.get(name).settings)
    transition = partial(
        go_offline,
        reader=reader,
        epoch=last.epoch,
        topologies=logs.topologies,
        position=wire.by_segment(last.position),
    )
    await change(name, transition)


def _check_reads(caller: Caller, stream: str) -> None:
    scope, _, _ = stream.partition("/")
    caller.check(Role.READ, scope)


def _check_positions(limits: Limits, positions: Mapping[str, Position]) -> None:
    for position in positions.values():
        limits.check_position(position)
