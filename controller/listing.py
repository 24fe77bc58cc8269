"""Lists of all streams and reader groups, and why the watermarks of listed streams are where they are."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from controller.commit.sequencer import Sequencer
from controller.groups import Groups, StoredGroup
from controller.store.holds import Held
from controller.streams.judging import judge
from controller.streams.lifecycle import describe, describe_briefly
from controller.streams.registry import Registry
from controller.streams.stream import StreamState
from tidegauge.holds import Hold
from tidegauge.names import StreamName
from tidegauge.wire.streams import HeldStream, HoldInfo, StreamBrief, StreamInfo

_ENTRIES_PER_PAGE = 25_000
"""Of positions: a microsecond or two each, in which all others wait, as pages are written in the
event loop."""
_ENTRIES_PER_SEGMENT = 5
"""How much longer it takes to write a segment of a topology than an entry of a position."""
_AT_ONCE = 100
"""Streams that are explained while all others wait: some milliseconds."""
_T = TypeVar("_T")
_S = TypeVar("_S", StreamInfo, StreamBrief)
_InScope: TypeAlias = Callable[[str], object]  # whether streams or groups of a scope are listed
_Page: TypeAlias = tuple[list[_T], bool]  # what it lists, and whether more follows


@dataclass(frozen=True, slots=True)
class Listing:
    """Lists what there is, from memory."""

    _registry: Registry
    _groups: Groups
    _sequencer: Sequencer

    async def streams(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StreamInfo]:
        """List streams in order of name, after one, of the scopes that ``of`` accepts."""
        states = self._registry.page(after, limit + 1, of=of)
        # Those that come after a full page are not described: they may be wide.
        return first_page(map(describe, states), limit, entries=_entries_of_stream)

    async def streams_in_short(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StreamBrief]:
        """List streams as `streams` does, without what grows with their segments."""
        states = self._registry.page(after, limit + 1, of=of)
        return first_page(map(describe_briefly, states), limit, entries=lambda _: 1)

    async def groups(
        self, after: StreamName | None, limit: int, *, of: _InScope
    ) -> _Page[StoredGroup]:
        """List groups in order of name, after one, of the scopes that ``of`` accepts."""
        stored = await self._sequencer.read(lambda: self._groups.page(after, limit + 1, of=of))
        return first_page(stored, limit, entries=_entries_of_group)

    async def explained(self, page: Sequence[_S]) -> list[_S]:
        """Explain the streams of a page, some at once; leave out those deleted meanwhile."""
        found: list[_S] = []
        for start in range(0, len(page), _AT_ONCE):
            some = page[start : start + _AT_ONCE]
            found += await self._sequencer.read(partial(self._explained, some))
        return found

    async def judged(self) -> list[StreamBrief]:
        """List all streams in short, explained and judged."""
        states, found = [one for one in self._registry if one.durable], list[StreamBrief]()
        for start in range(0, len(states), _AT_ONCE):
            some = states[start : start + _AT_ONCE]
            found += await self._sequencer.read(partial(_judged, some))
        return found

    async def held(
        self, stored: Iterable[Held], *, since_ms: int, until_ms: int, of: _InScope
    ) -> list[HeldStream]:
        """List streams by what is stored of them, and by the spans that go on."""

        def counted_ms(hold: Hold) -> int:
            inside_ms = min(hold.until_ms, until_ms) - max(hold.since_ms, since_ms)
            return min(hold.held_ms, inside_ms)

        by_key = {held.stream_key: held for held in stored}
        states = [one for one in self._registry if one.durable and of(one.identity.name.scope)]
        found: list[HeldStream] = []
        for start in range(0, len(states), _AT_ONCE):
            some = states[start : start + _AT_ONCE]
            current = await self._sequencer.read(partial(_current_holds, some))
            for state, hold in zip(some, current, strict=True):
                key, parts = state.identity.key, list[Held]()
                if key in by_key:
                    parts = [by_key[key]]
                # The span that goes on may have ended meanwhile, or lie outside.
                if hold is not None and (counts_ms := counted_ms(hold)) > 0:
                    parts.append(Held(key, counts_ms, 1, hold))
                if parts:
                    longest = max((one.longest for one in parts), key=counted_ms)
                    found.append(
                        HeldStream(
                            stream=str(state.identity.name),
                            held_ms=sum(one.held_ms for one in parts),
                            spans=sum(one.spans for one in parts),
                            longest=HoldInfo.model_validate(longest, from_attributes=True),
                        )
                    )
        return found

    def _explained(self, some: Sequence[_S]) -> list[_S]:
        found = []
        for one in some:
            state = self._registry.find(StreamName.parse(one.stream))
            if state is not None and state.identity.stream_id == one.stream_id:
                seen = judge(state)
                said = {"explanation": seen.explanation, "judged": seen.judged}
                found.append(one.model_copy(update=said))
        return found


def _judged(states: Sequence[StreamState]) -> list[StreamBrief]:
    return [judge(one) for one in states if not one.deleted]


def _current_holds(states: Sequence[StreamState]) -> list[Hold | None]:
    return [one.aggregator.current_hold(one.now()) for one in states]


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
