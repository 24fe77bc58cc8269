"""Calls about reader groups: the shared state, time windows, and readers without a client."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from fastapi import Depends, Header, Path, Query, Response

from controller.access.callers import Role
from controller.access.limits import Limits
from controller.commit.batch import Batch
from controller.commit.sequencer import Sequencer
from controller.groups import Groups, StoredGroup, read_logs
from controller.http import routing
from controller.http.windows import Windows
from controller.streams.registry import Registry
from tidegauge.errors import InvalidRequestError, PreconditionRequiredError
from tidegauge.groups import GroupState, advance, go_offline, has_its_share, join_group
from tidegauge.names import StreamName
from tidegauge.topology import Position
from tidegauge.wire import groups as wire
from tidegauge.wire.values import Name

router = routing.router_of("reader groups")
ALL = "/v1/reader-groups"
ONE = ALL + "/{scope}/{group}"
READER = ONE + "/readers/{reader}"


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """The group that a path names, and what reads and changes it."""

    name: StreamName
    groups: Groups
    registry: Registry
    sequencer: Sequencer

    async def read(self) -> StoredGroup:
        """Read its shared state between two batches."""
        return await self.sequencer.read(lambda: self.groups.get(self.name).newest)

    async def change(
        self, transition: Callable[[GroupState], GroupState], *, if_match: str | None = None
    ) -> StoredGroup:
        """Change it as `Groups.change` does, by the logs as they are now."""
        logs = read_logs(self.registry, self.groups.get(self.name).settings)

        def decide(batch: Batch) -> StoredGroup:
            return self.groups.change(
                self.name, transition, batch, logs=logs, if_match=if_match
            )

        return await self.sequencer.submit(decide)


ScopeName = Annotated[Name, Path(description="Scope of the group.")]
NameInScope = Annotated[Name, Path(description="Name of the group in its scope.")]
ReaderName = Annotated[Name, Path(description="The reader's name.")]


async def get_group(
    groups: routing.GroupsOf,
    registry: routing.RegistryOf,
    sequencer: routing.SequencerOf,
    scope: ScopeName,
    group: NameInScope,
) -> NamedGroup:
    """Return the group that a path names, whether it is there or not."""
    return NamedGroup(StreamName(scope, group), groups, registry, sequencer)


async def get_windows(
    database: routing.DatabaseOf, registry: routing.RegistryOf, groups: routing.GroupsOf
) -> Windows:
    """Return what finds time windows."""
    return Windows(database, registry, groups)


GroupOf = Annotated[NamedGroup, Depends(get_group)]
WindowsOf = Annotated[Windows, Depends(get_windows)]


@router.put(ONE, responses={201: {"model": wire.GroupInfo, "description": "Created."}})
async def create_group(
    creation: routing.GroupCreationOf,
    limits: routing.LimitsOf,
    caller: routing.CallerOf,
    named: GroupOf,
    settings: wire.CreateGroup,
    response: Response,
) -> wire.GroupInfo:
    """Create a group; repeating the call changes nothing.

    The caller needs the role `read` in the scopes of its streams, too.
    """
    for stream in settings.streams:
        caller.check(Role.READ, _scope_of(stream))
    _check_positions(limits, settings.start_cut or {})
    group, is_new = await creation.create(named.name, settings)
    response.status_code = 201 if is_new else 200
    response.headers["etag"] = group.etag
    return group.describe()


@router.get(ONE)
async def describe_group(named: GroupOf) -> wire.GroupDetails:
    """Describe a group, its shared state, and the progress of its query."""
    info = (await named.read()).describe()
    group = named.groups.get(named.name)
    return wire.GroupDetails(
        **dict(info),
        progress=named.groups.progress_of(group),
        readers=named.groups.readers_of(group),
    )


@router.post(ONE + "/progress", status_code=204, response_class=Response)
async def note_progress(named: GroupOf, progress: wire.GroupProgress) -> None:
    """Report how far a query that reads with a group has come; it is shown for 5 minutes."""
    await named.sequencer.read(lambda: named.groups.note_progress(named.name, progress))


@router.delete(ONE, status_code=204, response_class=Response)
async def delete_group(named: GroupOf) -> None:
    """Delete a group, and release the events that it retained."""
    await named.sequencer.submit(partial(named.groups.delete, named.name))


@router.get(ALL)
async def list_groups(
    listing: routing.ListingOf,
    caller: routing.CallerOf,
    clocks: routing.ClocksOf,
    found: WindowsOf,
    *,
    windows: Annotated[
        bool, Query(description="Return the time windows of each group in its streams.")
    ] = False,
    limit: routing.Limit = 100,
    cursor: routing.Cursor = None,
) -> wire.GroupList:
    """List groups in order of name, those in scopes where the caller reads or observes."""
    after = routing.read_cursor(cursor, StreamName.parse)
    page, more = await listing.groups(after, limit, of=caller.may_see)
    groups = []
    for one in page:
        seen = None
        if windows:
            visible = [s for s in one.settings.streams if caller.may_see(_scope_of(s))]
            seen = await found.of_those_left(one, visible)
        groups.append(wire.ListedGroup(**dict(one.describe()), windows=seen))
    return wire.GroupList(
        groups=groups,
        cursor=routing.write_cursor(groups[-1].group) if more else None,
        now_ms=clocks.now().wall_ms,
    )


@router.get(ONE + "/state")
async def read_state(named: GroupOf, response: Response) -> wire.StateDocument:
    """Read the shared state; its ETag is what a change must name."""
    newest = await named.read()
    response.headers["etag"] = newest.etag
    return wire.StateDocument.of(newest.state)


@router.put(ONE + "/state")
async def write_state(
    named: GroupOf,
    document: wire.StateDocument,
    response: Response,
    if_match: Annotated[
        str | None, Header(description="The ETag of the state that was read; required.")
    ] = None,
) -> wire.StateDocument:
    """Write the shared state, unless another write was faster (412) or it breaks a law (409)."""
    if if_match is None:
        raise PreconditionRequiredError("If-Match")
    group = await named.change(lambda _former: document.to_state(), if_match=if_match)
    response.headers["etag"] = group.etag
    return wire.StateDocument.of(group.state)


@router.get(ONE + "/time-window")
async def time_window(
    clocks: routing.ClocksOf,
    caller: routing.CallerOf,
    named: GroupOf,
    windows: WindowsOf,
    stream: Annotated[
        str | None,
        Query(
            description="One of the group's streams, scope/stream; left out, all that are still there."
        ),
    ] = None,
) -> wire.TimeWindowInfo | wire.GroupWindows:
    """Find the time window of the group: the same for all of its readers."""
    if stream is not None:
        caller.check_sees(_scope_of(stream))
    group = await named.read()
    if stream is None:
        for one in group.settings.streams:
            caller.check_sees(_scope_of(one))
        return await windows.of_all(group, now_ms=clocks.now().wall_ms)
    if stream not in group.settings.streams:
        read = ", ".join(group.settings.streams)
        message = f"{stream!r} is not read by the group; it reads {read}"
        raise InvalidRequestError.of("stream", message)
    return await windows.of(group, stream)


@router.post(READER)
async def join(named: GroupOf, reader: ReaderName) -> wire.ReaderJoined:
    """Join, or take over the name from another process."""
    group = await named.change(partial(join_group, reader=reader))
    named.groups.hear(named.name, reader)
    member = group.state.readers[reader]
    owned = wire.by_stream(member.owned)
    return wire.ReaderJoined(reader=reader, epoch=member.epoch, owned=owned)


@router.post(READER + "/position")
async def report_position(
    limits: routing.LimitsOf, named: GroupOf, reader: ReaderName, report: wire.ReaderPosition
) -> wire.ReaderBalance:
    """Confirm how far a reader has read, which is at most the tail of a segment."""
    _check_positions(limits, report.position)
    offsets = wire.by_segment(report.position)
    advanced = partial(advance, reader=reader, epoch=report.epoch, offsets=offsets)
    group = await named.change(advanced)
    named.groups.hear(named.name, reader)
    return wire.ReaderBalance(balanced=has_its_share(group.state, reader, report.epoch))


@router.post(READER + "/heartbeat")
async def heartbeat(
    named: GroupOf, reader: ReaderName, beat: wire.ReaderHeartbeat
) -> wire.ReaderBalance:
    """Say that a reader is alive, and learn whether the readers have to share the segments again."""

    def hear() -> bool:
        balanced = has_its_share(named.groups.get(named.name).state, reader, beat.epoch)
        named.groups.hear(named.name, reader)
        return balanced

    balanced = await named.sequencer.read(hear)
    return wire.ReaderBalance(balanced=balanced)


@router.delete(READER, status_code=204, response_class=Response)
async def offline(
    limits: routing.LimitsOf, named: GroupOf, reader: ReaderName, last: wire.ReaderOffline
) -> None:
    """Take a reader offline; its segments go back at its confirmed offsets, or at a position."""
    _check_positions(limits, last.position)
    logs = read_logs(named.registry, named.groups.get(named.name).settings)
    transition = partial(
        go_offline,
        reader=reader,
        epoch=last.epoch,
        topologies=logs.topologies,
        position=wire.by_segment(last.position),
    )
    await named.change(transition)


def _scope_of(stream: str) -> str:
    return stream.partition("/")[0]


def _check_positions(limits: Limits, positions: Mapping[str, Position]) -> None:
    for position in positions.values():
        limits.check_position(position)
