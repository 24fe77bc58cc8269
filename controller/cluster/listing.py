"""Lists of all streams and reader groups, whoever holds them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sqlalchemy import Table

from controller.groups import StoredGroup, read_groups
from controller.schema import reader_groups, streams
from controller.store import streams as storage
from controller.store.overview import read_overview
from controller.store.paging import first_page
from controller.streams import lifecycle
from tidegauge.names import StreamName
from tidegauge.wire.groups import GroupInfo
from tidegauge.wire.streams import StreamInfo

if TYPE_CHECKING:
    from controller.service import Service

_AT_ONCE = 1_000
_LOOKED_AT_ONCE = 100
_ENTRIES_PER_SEGMENT = 5
"""How much longer it takes to write a segment of a topology than an entry of a position."""
_T = TypeVar("_T")
_Wanted: TypeAlias = Callable[[str], object]
_Page: TypeAlias = tuple[list[_T], bool]
_LookAt: TypeAlias = Callable[[list[StreamName]], Awaitable[list[_T]]]


async def page_of_streams(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> _Page[StreamInfo]:
    """List streams in order of name, after one, of scopes that are wanted; tell if more follow."""
    if service.ownership.controller is None:
        states, more = first_page(
            service.registry.page(after, limit + 1, of=of),
            limit,
            entries=lambda one: _ENTRIES_PER_SEGMENT * len(one.published_topology.segments),
        )
        return [lifecycle.describe(one) for one in states], more

    async def look_at(names: list[StreamName]) -> list[StreamInfo]:
        return await service.database.read(partial(read_overview, names=names))

    return await _page(
        partial(_names, service, streams, of=of),
        after,
        limit,
        look_at=look_at,
        entries=lambda one: _ENTRIES_PER_SEGMENT * len(one.topology.segments),
    )


async def page_of_groups(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> _Page[GroupInfo]:
    """List groups in order of name, after one, of scopes that are wanted; tell if more follow."""
    if service.ownership.controller is None:

        def look() -> _Page[GroupInfo]:
            found = service.groups.page(after, limit + 1, of=of)
            groups, more = first_page(found, limit, entries=_entries_of_group)
            return [one.describe() for one in groups], more

        return await service.sequencer.read(look)

    async def look_at(names: list[StreamName]) -> list[StoredGroup]:
        groups = await service.database.read(partial(read_groups, named=names))
        return sorted(groups, key=lambda one: one.name)

    groups, more = await _page(
        partial(_names, service, reader_groups, of=of),
        after,
        limit,
        look_at=look_at,
        entries=_entries_of_group,
    )
    return [one.describe() for one in groups], more


def _entries_of_group(group: StoredGroup) -> int:
    state = group.state
    offsets = [state.unassigned, state.completed, *state.checkpoints.values()]
    offsets += [one.owned for one in state.readers.values()]
    return sum(map(len, offsets))


async def _page(
    read_names: Callable[[StreamName | None, int], Awaitable[list[StreamName]]],
    after: StreamName | None,
    limit: int,
    *,
    look_at: _LookAt[_T],
    entries: Callable[[_T], int],
) -> _Page[_T]:
    """Read names, and then what has them, some at once: a page may be full of few.

    The race: some of it is deleted in between. What follows takes its place, since a page after
    which nothing was found is taken for the last one.
    """
    found: list[_T] = []
    while True:
        wanted = limit + 1 - len(found)
        names = await read_names(after, wanted)
        for at in range(0, len(names), _LOOKED_AT_ONCE):
            found += await look_at(names[at : at + _LOOKED_AT_ONCE])
            page, more = first_page(found, limit, entries=entries)
            if more:
                return page, True
        if len(names) < wanted:
            return found, False
        after = names[-1]


async def _names(
    service: "Service", table: Table, after: StreamName | None, limit: int, *, of: _Wanted
) -> list[StreamName]:
    wanted: list[StreamName] = []
    while len(wanted) < limit:
        names = await service.database.read(
            partial(storage.read_names, table=table, after=after, limit=_AT_ONCE)
        )
        wanted += [name for name in names if of(name.scope)]
        if len(names) < _AT_ONCE:
            break
        after = names[-1]
    return wanted[:limit]
