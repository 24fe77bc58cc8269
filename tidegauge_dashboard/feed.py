"""The feed: the questions to the service while pages are open, and the history of the answers.

The load on the service does not grow with the pages: those that show the same share one watch.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.states import is_holding
from tidegauge.wire.groups import GroupList, ListedGroup
from tidegauge.wire.streams import BriefStreamList, StreamBrief
from tidegauge_dashboard.asking import Asking, Outage, Question
from tidegauge_dashboard.history import History, Holders
from tidegauge_dashboard.page.pace import TUBE_MS
from tidegauge_dashboard.watches import GroupWatch, StreamWatch, Watch, WritersWatch

_OVERVIEW_S, _OTHER_S, _NOBODY_S = 2.0, 4.0, 15.0
_GROUPS_S = 5.0
_LINGER_S = 20.0

_W = TypeVar("_W", bound=Watch)


class Seen:
    """A stream as it was listed last, and its history of the last minutes."""

    def __init__(self, brief: StreamBrief) -> None:
        self.brief = brief
        self.watermarks = History(TUBE_MS + 10_000)
        self.revisions = History(TUBE_MS)
        self.holders = Holders()
        self.listed_ms = 0

    def update(self, brief: StreamBrief, now_ms: int) -> None:
        """Record what the list says now."""
        self.brief, self.listed_ms = brief, now_ms
        at_ms = now_ms if brief.marked_ms is None else min(brief.marked_ms, now_ms)
        if brief.watermark is not None and brief.watermark != END_OF_TIME:
            self.watermarks.add(at_ms, brief.watermark)
        self.revisions.add(at_ms, brief.revision)
        one = brief.explanation
        if one is not None:
            holder = one.holder if is_holding(one.reason, one) else None
            stood_since_ms = 0 if brief.marked_ms is None else brief.marked_ms
            self.holders.add(now_ms, holder, stood_since_ms=stood_since_ms)


class _Counted(Generic[_W]):
    """A watch, and how many pages show it."""

    def __init__(self, watch: _W) -> None:
        self.watch = watch
        self.pages = 0
        self.left_s = time.monotonic()


class Feed:
    """Keeps the answers of the service up to date for the pages that are open.

    Attributes
    ----------
    streams, groups
        The lists, by name.
    listed_ms
        The service's clock when it listed the streams; 0 before that.
    asks_streams, asks_groups
        How the questions for them fare.
    """

    def __init__(self, asking: Asking) -> None:
        self.asking = asking
        self.streams: dict[str, Seen] = {}
        self.groups: dict[str, ListedGroup] = {}
        self.listed = False
        self.listed_groups = False
        self.listed_s = 0.0
        self.listed_ms = 0
        self.asks_streams = Question()
        self.asks_groups = Question()
        self._watches: dict[tuple[object, ...], _Counted[Any]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake_streams = asyncio.Event()
        self._wake_groups = asyncio.Event()
        self._overviews = 0
        self._others = 0

    def start(self) -> None:
        """Begin to ask."""
        repeat = self.asking.repeat
        questions = (
            repeat(
                self.asks_streams,
                self._ask_streams,
                self._streams_pause,
                wake=self._wake_streams,
            ),
            repeat(
                self.asks_groups, self._ask_groups, self._groups_pause, wake=self._wake_groups
            ),
        )
        self._tasks.update(map(asyncio.create_task, questions))

    async def stop(self) -> None:
        """Ask no more."""
        for counted in self._watches.values():
            counted.watch.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.asking.aclose()

    def outage(self, watches: Iterable[Watch] = ()) -> Outage | None:
        """Return what keeps the service from answering the lists and some watches."""
        asked = [self.asks_streams, self.asks_groups]
        for watch in watches:
            asked += watch.questions
        return self.asking.outage_of(asked)

    # which pages are open

    def open(self, *, overview: bool) -> None:
        """Count a page that was opened."""
        self._overviews += overview
        self._others += not overview
        self._wake_streams.set()
        self._wake_groups.set()

    def close(self, *, overview: bool) -> None:
        """Count a page that was closed."""
        self._overviews -= overview
        self._others -= not overview

    def watch_stream(self, stream: str) -> StreamWatch:
        """Watch a stream for one page more; `release` ends that."""
        seen = self.streams.get(stream)
        holders = None if seen is None else seen.holders
        return self._acquire(
            ("stream", stream), lambda: StreamWatch(self.asking, stream, holders)
        )

    def watch_writers(self, stream: str, prefix: str) -> WritersWatch:
        """Watch the slowest writers of a stream, or those whose name begins so."""
        key = ("writers", stream, prefix)
        return self._acquire(key, lambda: WritersWatch(self.asking, stream, prefix))

    def watch_group(self, group: str) -> GroupWatch:
        """Watch a reader group."""
        return self._acquire(("group", group), lambda: GroupWatch(self.asking, group))

    def _acquire(self, key: tuple[object, ...], make: Callable[[], _W]) -> _W:
        counted = self._watches.get(key)
        if counted is None:
            counted = self._watches[key] = _Counted(make())
            counted.watch.start()
        counted.pages += 1
        watch: _W = counted.watch
        return watch

    def release(self, watch: Watch) -> None:
        """Count a page that shows it no more; it goes on for a while, should somebody return."""
        for counted in self._watches.values():
            if counted.watch is watch:
                counted.pages -= 1
                counted.left_s = time.monotonic()

    def reap(self) -> None:
        """End watches that nobody has shown for a while."""
        now_s = time.monotonic()
        for key, counted in list(self._watches.items()):
            if counted.pages == 0 and now_s - counted.left_s > _LINGER_S:
                counted.watch.stop()
                del self._watches[key]

    # the lists

    def _streams_pause(self) -> float:
        if self._overviews:
            return _OVERVIEW_S
        return _OTHER_S if self._others else _NOBODY_S

    def _groups_pause(self) -> float:
        return _GROUPS_S if self._overviews or self._others else _NOBODY_S

    async def _ask_streams(self) -> None:
        briefs: list[StreamBrief] = []
        cursor: str | None = None
        while True:
            page = await self.asking.get(
                "streams",
                "/v1/streams",
                BriefStreamList,
                brief="true",
                explain="true",
                limit=1_000,
                cursor=cursor,
            )
            briefs += page.streams
            cursor = page.cursor
            if cursor is None:
                break
        self._take(briefs, page.now_ms)

    def _take(self, briefs: list[StreamBrief], now_ms: int) -> None:
        former = self.streams
        self.streams = {}
        for brief in briefs:
            seen = former.get(brief.stream)
            # one that was deleted and created again has nothing in common with the former
            if seen is None or seen.brief.stream_id != brief.stream_id:
                seen = Seen(brief)
            seen.update(brief, now_ms)
            self.streams[brief.stream] = seen
        self.listed = True
        self.listed_s = time.monotonic()
        self.listed_ms = now_ms

    async def _ask_groups(self) -> None:
        groups: dict[str, ListedGroup] = {}
        cursor: str | None = None
        while True:
            page = await self.asking.get(
                "groups",
                "/v1/reader-groups",
                GroupList,
                windows="true",
                limit=1_000,
                cursor=cursor,
            )
            groups |= {one.group: one for one in page.groups}
            cursor = page.cursor
            if cursor is None:
                break
        self.groups = groups
        self.listed_groups = True
