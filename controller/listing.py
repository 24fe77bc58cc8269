"""Lists of all streams and reader groups, whoever holds them."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from sqlalchemy import Table

from controller import storage
from controller.groups import read_groups
from controller.schema import reader_groups, streams
from controller.streams import StreamState
from tidegauge.errors import UnknownStreamError
from tidegauge.names import StreamName
from tidegauge.wire.groups import GroupInfo

if TYPE_CHECKING:
    from controller.service import Service

_AT_ONCE = 1_000
_Wanted = Callable[[str], object]


async def page_of_streams(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> list[StreamState]:
    """List streams in order of name, after one, of scopes that are wanted."""
    if service.holding.controller is None:
        return service.registry.page(after, limit, of=of)
    found = []
    for name in await _names(service, streams, after, limit, of=of):
        try:
            found.append(await service.look_at(name))
        except UnknownStreamError:
            continue
    return found


async def page_of_groups(
    service: "Service", after: StreamName | None, limit: int, *, of: _Wanted
) -> list[GroupInfo]:
    """List groups in order of name, after one, of scopes that are wanted."""
    if service.holding.controller is None:
        return await service.sequencer.read(
            lambda: [one.describe() for one in service.groups.page(after, limit, of=of)]
        )
    names = await _names(service, reader_groups, after, limit, of=of)
    groups = await service.database.read(partial(read_groups, named=names))
    return sorted((one.describe() for one in groups), key=lambda one: one.group.split("/"))


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
