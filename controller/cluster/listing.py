"""Lists of all streams and reader groups, whoever holds them."""

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from sqlalchemy import Connection, Table

from controller.cluster import Ownership
from controller.commit.sequencer import Sequencer
from controller.database import Database
from controller.groups import Groups, StoredGroup, read_groups
from controller.schema import reader_groups, streams
from controller.store import streams as storage
from controller.store.overview import read_briefly, read_overview
from controller.streams.lifecycle import describe, describe_briefly
from controller.streams.registry import Registry
from tidegauge.names import StreamName
from tidegauge.wire.streams import StreamBrief, StreamInfo

_NAMES_AT_ONCE = 1_000  # the longest page that may be asked for needs one query
_READ_AT_ONCE = 100
"""Rows may be wide: no more of them are read than a page of wide ones takes."""
_ENTRIES_PER_PAGE = 25_000
"""Of positions: a microsecond or two each, in which all others wait, as pages are written in the
event loop."""
_ENTRIES_PER_SEGMENT = 5
"""How much longer it takes to write a segment of a topology than an entry of a position."""
_T = TypeVar("_T")
_InScope: TypeAlias = Callable[[str], object]  # whether streams or groups of a scope are listed
_Page: TypeAlias = tuple[list[_T], bool]  # what it lists, and whether more follows
_Read: TypeAlias = Callable[..., list[_T]]  # reads what has certain ``names``, in their order


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists what all controllers hold: from memory, if there is one controller."""

    _registry: Registry
    _groups: Groups
    _ownership: Ownership
    _sequencer: Sequencer
    _database: Database

    async def streams(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StreamInfo]:
        """List streams in order of name, after one, of the scopes that ``of`` accepts."""
        if self._ownership.lease.controller is None:
            states = self._registry.page(after, limit + 1, of=of)
            # Those that come after a full page are not described: they may be wide.
            return first_page(map(describe, states), limit, entries=_entries_of_stream)
        names = partial(self._names, streams, of=of)
        return await self._page(names, after, limit, read_overview, _entries_of_stream)

    async def streams_in_short(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StreamBrief]:
        """List streams as `streams` does, without what grows with their segments."""
        if self._ownership.lease.controller is None:
            states = self._registry.page(after, limit + 1, of=of)
            return first_page(map(describe_briefly, states), limit, entries=lambda _: 1)
        names = partial(self._names, streams, of=of)
        return await self._page(names, after, limit, read_briefly, lambda _: 1)

    async def groups(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StoredGroup]:
        """List groups in order of name, after one, of the scopes that ``of`` accepts."""
        if self._ownership.lease.controller is None:
            stored = await self._sequencer.read(
                lambda: self._groups.page(after, limit + 1, of=of)
            )
            return first_page(stored, limit, entries=_entries_of_group)
        names = partial(self._names, reader_groups, of=of)
        return await self._page(names, after, limit, _read_groups, _entries_of_group)

    async def _names(
        self, table: Table, after: StreamName | None, limit: int, *, of: _InScope
    ) -> list[StreamName]:
        names: list[StreamName] = []
        while len(names) < limit:
            read = partial(storage.read_names, table=table, after=after, limit=_NAMES_AT_ONCE)
            some = await self._database.read(read)
            names += [name for name in some if of(name.scope)]
            if len(some) < _NAMES_AT_ONCE:
                break
            after = some[-1]
        return names[:limit]

    async def _page(
        self,
        names_after: Callable[[StreamName | None, int], Awaitable[list[StreamName]]],
        after: StreamName | None,
        limit: int,
        read: _Read[_T],
        entries: Callable[[_T], int],
    ) -> _Page[_T]:
        """Read names, and then what has them, some at once: a page may be full of few.

        The race: some of it is deleted in between. What follows takes its place, since a page
        after which nothing was found is taken for the last one.
        """
        listed: list[_T] = []
        while True:
            missing = limit + 1 - len(listed)
            names = await names_after(after, missing)
            for start in range(0, len(names), _READ_AT_ONCE):
                some = names[start : start + _READ_AT_ONCE]
                listed += await self._database.read(partial(read, names=some))
                page, more = first_page(listed, limit, entries=entries)
                if more:
                    return page, True
            if len(names) < missing:
                return listed, False
            after = names[-1]


def _read_groups(connection: Connection, names: list[StreamName]) -> list[StoredGroup]:
    return sorted(read_groups(connection, named=names), key=lambda group: group.name)


def _entries_of_stream(info: StreamInfo) -> int:
    return _ENTRIES_PER_SEGMENT * len(info.topology.segments)


def _entries_of_group(group: StoredGroup) -> int:
    state = group.state
    offsets = [state.unassigned, state.completed, *state.checkpoints.values()]
    offsets += [reader.owned for reader in state.readers.values()]
    return sum(map(len, offsets))


def first_page(
    listed: Iterable[_T], limit: int, *, entries: Callable[[_T], int]
) -> tuple[list[_T], bool]:
    """Return the first page of a list, and whether more follows.

    Besides ``limit`` items, a page has no more ``entries`` than others can wait for, but one item
    anyhow.

    Examples
    --------
    >>> first_page("abc", 2, entries=lambda _one: 1)
    (['a', 'b'], True)
    >>> first_page("abc", 3, entries=lambda _one: 15_000)
    (['a'], True)
    """
    page: list[_T] = []
    left = _ENTRIES_PER_PAGE
    for item in listed:
        left -= entries(item)
        if page and (len(page) == limit or left < 0):
            return page, True
        page.append(item)
    return page, False
