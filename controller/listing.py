"""Lists of all streams and reader groups, whoever holds them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from sqlalchemy import Table

from controller import lifecycle, storage
from controller.groups import read_groups
from controller.overview import read_overview
from controller.schema import reader_groups, streams
from tidegauge.names import StreamName
from tidegauge.wire.groups import GroupInfo
from tidegauge.wire.streams import StreamInfo

if TYPE_CHECKING:
    from controller.service import Service

_AT_ONCE = 1_000
_T = TypeVar("_T")
_Wanted: TypeAlias = Callable[[str], object]
_LookAt: TypeAlias = Callable[[list[StreamName]], Awaitable[list[_T]]]


async def page_of_streams(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> list[StreamInfo]:
    """List streams in order of name, after one, of scopes that are wanted."""
    if service.holding.controller is None:
        return [lifecycle.describe(one) for one in service.registry.page(after, limit, of=of)]

    async def look_at(names: list[StreamName]) -> list[StreamInfo]:
        return await service.database.read(partial(read_overview, names=names))

    return await _page(service, streams, after, limit, of=of, look_at=look_at)


async def page_of_groups(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> list[GroupInfo]:
    """List groups in order of name, after one, of scopes that are wanted."""
    if service.holding.controller is None:
        return await service.sequencer.read(
            lambda: [one.describe() for one in service.groups.page(after, limit, of=of)]
        )

    async def look_at(names: list[StreamName]) -> list[GroupInfo]:
        groups = await service.database.read(partial(read_groups, named=names))
        return [one.describe() for one in sorted(groups, key=lambda one: one.name)]

    return await _page(service, reader_groups, after, limit, of=of, look_at=look_at)


async def _page(  # noqa: PLR0913 (of what, from where, how many)
    service: "Service",
    table: Table,
    after: StreamName | None,
    limit: int,
    *,
    of: _Wanted,
    look_at: _LookAt[_T],
) -> list[_T]:
    """Read names, and then what has them.

    The race: some of it is deleted in between. What follows takes its place, since a page that
    is not full is taken for the last one.
    """
    page: list[_T] = []
    while wanted := limit - len(page):
        names = await _names(service, table, after, wanted, of=of)
        page += await look_at(names)
        if len(names) < wanted:
            break
        after = names[-1]
    return page


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
