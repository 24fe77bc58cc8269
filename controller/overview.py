"""All streams, trouble first: judged once a second for all who ask, and written once for all who may see the same."""

import asyncio
import gzip
from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from time import perf_counter
from typing import NamedTuple

from controller.access.callers import Caller
from controller.clocks import Clocks
from controller.commit.sequencer import Sequencer
from controller.listing import Listing
from tidegauge.explain.states import State
from tidegauge.wire.streams import JudgedStreamList, StreamBrief

_PERIOD_S = 1.0
_REST = 20
"""After judging all, at least so many times as long passes before the next: 5 % of a core."""
_MOST_PAGES = 100


class Asked(NamedTuple):
    """Who asks for a page, and for what."""

    caller: Caller
    limit: int
    q: str = ""
    """Part of the name of a stream, or of the writer that holds it, in lower case."""
    state: State | None = None
    trouble: bool = True
    """Whether trouble comes first; False for a list by name."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """All streams as they were judged together."""

    streams: list[StreamBrief]
    judged_ms: int
    pages: dict[object, bytes]
    """By the grants of who asks, and what for."""


@dataclass(slots=True)
class Overview:
    """Keeps what was judged last."""

    _listing: Listing
    _sequencer: Sequencer
    _clocks: Clocks
    _seen: "asyncio.Task[_Seen] | None" = None
    _until_s: float = field(default=0.0)

    async def page(self, asked: Asked) -> bytes:
        """Return a page as gzipped JSON: one period old at most, if this controller is certain now.

        Raises
        ------
        UnavailableError
            If it is not.
        """
        seen = await self._judged()
        key = frozenset(asked.caller.grants.items()), asked[1:]
        page = seen.pages.get(key)
        if page is None:
            # In a thread: of 100 000 streams it is a fraction of a second.
            page = await asyncio.to_thread(_write, seen, asked)
            if len(seen.pages) < _MOST_PAGES:
                seen.pages[key] = page
        await self._sequencer.read(lambda: None)
        return page

    async def _judged(self) -> _Seen:
        """Return what was judged in this period; who comes meanwhile waits for the same."""
        seen = self._seen
        if seen is None or (seen.done() and (self._is_over() or seen.exception() is not None)):
            seen = self._seen = asyncio.create_task(self._judge())
        return await asyncio.shield(seen)

    def _is_over(self) -> bool:
        return perf_counter() >= self._until_s

    async def _judge(self) -> _Seen:
        began, judged_ms = perf_counter(), self._clocks.now().wall_ms
        streams = await self._listing.judged()
        took_s = perf_counter() - began
        self._until_s = began + max(_PERIOD_S, _REST * took_s)
        return _Seen(streams, judged_ms, {})


def _write(seen: _Seen, asked: Asked) -> bytes:
    """Write what the caller may see of the streams that are asked for, as gzipped JSON."""
    judged = {
        one.stream: (one, one.judged)
        for one in seen.streams
        if one.judged is not None and asked.caller.roles(one.stream.partition("/")[0])
        if asked.q in one.stream.lower() or asked.q in _holder_of(one)
    }
    counts = Counter(found.state for _, found in judged.values())
    chosen = [name for name, (_, found) in judged.items() if asked.state in {None, found.state}]
    first = nsmallest(asked.limit, chosen, key=lambda name: (judged[name][1].rank, name))
    written = JudgedStreamList.model_construct(
        streams=[judged[name][0] for name in first],
        cursor=None,
        now_ms=seen.judged_ms,
        counts=dict(counts),
        judged_ms=seen.judged_ms,
        more=len(chosen) > asked.limit,
    )
    return gzip.compress(written.model_dump_json().encode(), compresslevel=1)


def _holder_of(one: StreamBrief) -> str:
    holder = None if one.explanation is None else one.explanation.holder
    return "" if holder is None else holder.lower()
