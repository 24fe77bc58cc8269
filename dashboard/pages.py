"""Pages: what is drawn, made once a second for all that show the same."""

import asyncio
import shlex
import time
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from pydantic_core import to_json

from dashboard.feed import TUBE_MS, Feed, Seen
from dashboard.look import chart, group, headline, overview, segments, tabs
from dashboard.look.overview import Entry
from dashboard.look.words import Part, Times
from dashboard.views import GroupView, OverviewView, StreamView, View
from dashboard.watches import SLOWEST, GroupWatch, StreamWatch, Watch, WritersWatch
from tidegauge.explain.states import (
    HELD_AFTER_MS,
    HOLDING,
    Pace,
    Standing,
    standing_of,
    trouble_first,
)
from tidegauge.names import StreamName, parse_group
from tidegauge.wire.groups import ListedGroup

_TICK_S = 1.0
_LOOKS = 10
"""In a tick: how often those that wait for a first answer look whether it is there."""
_ORDER_S = 5.0
_RATE_MS = 30_000
_GAIN_MS = 30_000
_DEFAULT_URL = "http://127.0.0.1:8470"
"""Where commands go that name no other."""


class Page:
    """One page that is open in a browser.

    Attributes
    ----------
    turn
        Set when there may be something new to draw.
    """

    def __init__(self, pages: "Pages") -> None:
        self.turn = asyncio.Event()
        self._pages = pages
        self._view: View | None = None
        self._watches: list[Watch] = []
        self._sent: dict[str, bytes] = {}
        self._problem: str | None = None

    def show(self, view: View) -> None:
        """Show something else from now on."""
        feed = self._pages.feed
        former = self._watches
        self._count(self._view, view)
        try:
            self._watches, self._problem = watches_of(feed, view), None
        except ValueError as error:  # somebody typed an address that names nothing
            self._watches, self._problem = [], str(error)
        for watch in former:
            feed.release(watch)
        self._view = view
        self._sent = {}
        self.turn.set()

    def close(self) -> None:
        """Show nothing any more."""
        for watch in self._watches:
            self._pages.feed.release(watch)
        self._watches = []
        self._count(self._view, None)
        self._view = None

    def look(self) -> None:
        """Take a turn at once if what was still unknown is there now."""
        if self._view is None or self._pages.is_drawn(self._view):
            return
        try:
            self._pages.parts_of(self._view, self._watches, problem=self._problem)
        except Exception:  # noqa: BLE001 (its own turn meets that again: others go on)
            self.turn.set()
        if self._pages.is_drawn(self._view):
            self.turn.set()

    def _count(self, former: View | None, view: View | None) -> None:
        feed = self._pages.feed
        if view is not None:
            feed.open(overview=view.kind == "overview")
        if former is not None:
            feed.close(overview=former.kind == "overview")

    def message(self) -> str | None:
        """Write what changed since the last message; None while nothing is shown."""
        if self._view is None:
            return None
        parts = self._pages.parts_of(self._view, self._watches, problem=self._problem)
        new = {name: body for name, body in parts.items() if self._sent.get(name) != body}
        self._sent = parts
        always = {name: parts[name] for name in ("view", "kind", "place", "now")}
        fields = b",".join(
            b'"%s":%s' % (name.encode(), body) for name, body in (always | new).items()
        )
        return f"{{{fields.decode()}}}"


class Pages:
    """All pages that are open.

    Parameters
    ----------
    held_after_ms
        A stream counts as held once its watermark stands for so long, ms.
    shown_url
        Where people reach the service, if not where the feed does.
    """

    def __init__(
        self, feed: Feed, *, held_after_ms: int = HELD_AFTER_MS, shown_url: str | None = None
    ) -> None:
        self.feed = feed
        self._url = (shown_url or feed.asking.url).rstrip("/")
        self._held_after_ms = held_after_ms
        self._open: set[Page] = set()
        self._made: dict[View, dict[str, bytes]] = {}
        self._standings: dict[str, Standing] = {}
        self._paces: dict[str, Pace] = {}
        self._judged: Mapping[str, Seen] | None = None
        self._order: list[str] = []
        self._ordered_s = 0.0

    def open(self) -> Page:
        """Open one that shows nothing yet."""
        page = Page(self)
        self._open.add(page)
        return page

    def close(self, page: Page) -> None:
        """Close it."""
        self._open.discard(page)
        page.close()

    async def run(self) -> None:
        """Let every page draw once a second."""
        while True:
            for _ in range(_LOOKS):
                await asyncio.sleep(_TICK_S / _LOOKS)
                for page in self._open:
                    page.look()
            self._made.clear()
            self.feed.reap()
            for page in self._open:
                page.turn.set()

    def is_drawn(self, view: View) -> bool:
        """Whether a view was drawn in this second."""
        return view in self._made

    def parts_of(
        self, view: View, watches: Sequence[Watch], *, problem: str | None = None
    ) -> dict[str, bytes]:
        """Draw a view in parts, as JSON, unless that was done for another page in this second."""
        made = self._made.get(view)
        if made is None:
            outage = self.feed.outage(watches)
            # in an outage nobody is dropped, and nothing is known to be held: all is as it was seen
            seen_ms = watches[0].seen_ms if watches else self.feed.listed_ms
            stopped_ms = seen_ms if outage else 0
            common: Part = {
                "view": view.model_dump_json(),
                "kind": view.kind,
                "place": place_of(view),
                "now": self.feed.asking.now_ms(),
                "stopped": stopped_ms or None,
                "service": self._url,
                "outage": None
                if outage is None
                else {
                    "url": outage.url,
                    "since": None
                    if outage.since_ms is None
                    else outage.since_ms + self.feed.asking.skew_ms,
                    "reason": outage.reason,
                },
                "missing": None,
            }
            drawn = common | (
                {"missing": problem}
                if problem
                else self._draw(view, watches, stopped_ms or self.feed.asking.now_ms())
            )
            made = {name: to_json(part) for name, part in drawn.items()}
            if len(made) > len(common):  # nothing is there yet: the next look may see it
                self._made[view] = made
        return made

    def _draw(self, view: View, watches: Sequence[Watch], now_ms: int) -> Part:
        refusal = next((one.refusal for one in watches if one.refusal), None)
        if refusal is not None:
            return {"missing": refusal}
        if isinstance(view, OverviewView):
            return self._draw_overview(view, now_ms)
        if isinstance(view, StreamView):
            return self._draw_stream(view, watches, now_ms)
        return self._draw_group(watches, now_ms)

    # the overview

    def _judge(self, now_ms: int) -> None:
        """Tell the state of each stream, once for each list of them."""
        if self._judged is self.feed.streams:
            return
        self._judged = self.feed.streams
        self._paces = {name: seen.pace(now_ms) for name, seen in self._judged.items()}
        self._standings = {
            name: standing_of(
                seen.brief,
                self._paces[name],
                now_ms=now_ms,
                free_ms=seen.holders.free_ms,
                held_after_ms=self._held_after_ms,
            )
            for name, seen in self._judged.items()
        }
        if time.monotonic() - self._ordered_s >= _ORDER_S or self._order_misses():
            self._order = trouble_first(self._standings)
            self._ordered_s = self.feed.listed_s

    def _order_misses(self) -> bool:
        return len(self._order) != len(self._standings) or any(
            name not in self._standings for name in self._order
        )

    def _draw_overview(self, view: OverviewView, now_ms: int) -> Part:
        refusal = self.feed.asks_streams.refusal
        if refusal is not None or not self.feed.listed:
            return {"missing": refusal}
        self._judge(now_ms)
        streams, standings = self.feed.streams, self._standings
        found = [
            name
            for name in self._order
            if (view.state is None or standings[name].state == view.state)
            and (not view.search or overview.matches(streams[name].brief, view.search))
        ]
        pages = max(1, -(-len(found) // overview.PAGE_ROWS))
        page = min(view.page, pages)
        first = (page - 1) * overview.PAGE_ROWS
        shown = found[first : first + overview.PAGE_ROWS]
        if view.rows is not None:
            shown = [name for name in view.rows if name in streams]
        groups = self._groups_of(shown)
        end_ms = now_ms - now_ms % overview.BIN_MS
        bins = [
            end_ms - overview.BIN_MS * (overview.BINS - 1 - n) for n in range(overview.BINS)
        ]
        rows = [
            overview.row_of(
                Entry(
                    streams[name].brief,
                    standings[name],
                    self._paces[name],
                    list(streams[name].watermarks.at(bins)),
                    streams[name].listed_ms,
                ),
                groups.get(name, []),
                now_ms=now_ms,
            )
            for name in shown
        ]
        return {
            "list": {
                "total": f"{len(streams):,}",
                "pills": overview.pills_of(standings.values(), view.state),
                "rows": rows,
                "page": page,
                "pages": pages,
                "groups_refusal": self.feed.asks_groups.refusal,
                "empty": self._addressed(
                    overview.empty_of(len(streams), len(rows), wanted=view.search)
                ),
            }
        }

    def _addressed(self, part: Part | None) -> Part | None:
        """Have the command in a part, if there is one, go to the service that is shown."""
        if part is None or not part.get("command") or self._url == _DEFAULT_URL:
            return part
        return part | {"command": f"{part['command']} --url {shlex.quote(self._url)}"}

    def _groups_of(self, streams: Sequence[str]) -> dict[str, list[ListedGroup]]:
        found: dict[str, list[ListedGroup]] = {name: [] for name in streams}
        for one in self.feed.groups.values():
            for name in one.streams:
                if name in found:
                    found[name].append(one)
        return found

    # a stream

    def _draw_stream(self, view: StreamView, watches: Sequence[Watch], now_ms: int) -> Part:
        watch, slowest, *_ = watches
        assert isinstance(watch, StreamWatch)  # noqa: S101 (as `watches_of` makes them)
        assert isinstance(slowest, WritersWatch)  # noqa: S101
        info, clock = watch.info, watch.clock
        if info is None or clock is None:
            return {}
        stood_ms = clock.explanation.stood_ms
        stood_from_ms = None if stood_ms is None else watch.seen_ms - stood_ms
        brief = headline.brief_of(info, clock, stood_from_ms)
        standing = standing_of(
            brief,
            pace_of(watch, now_ms),
            now_ms=now_ms,
            free_ms=watch.holders.free_ms,
            held_after_ms=self._held_after_ms,
        )
        times = Times.of(follows_clock=brief.follows_clock, example=brief.watermark)
        open_ones = watch.transactions.transactions if watch.transactions else []
        holds = clock.explanation.reason in HOLDING
        holders = clock.explanation.holders
        holder = holders[0].writer if standing.is_held and holds and holders else None
        grid = chart.grid_of(now_ms, view.span if view.span in chart.SPANS_S else 300)
        states = clock.explanation.states
        live = sum(states.get(one, 0) for one in overview.LIVE)
        return {
            "head": self._addressed(
                headline.head_of(
                    brief,
                    standing,
                    clock,
                    clock_ms=watch.seen_ms,
                    marks_per_s=_rate(watch, now_ms),
                    notes=headline.notes_of(info, open_ones),
                )
            ),
            "chart": None
            if brief.final
            else chart.chart_of(
                grid,
                watch.watermarks,
                watch.fronts,
                slowest.stands,
                now_ms=now_ms,
                holder=holder,
                tone=standing.tone,
                times=times,
            ),
            "strip": chart.held_by(watch.holders, grid, now_ms=now_ms),
            "race": chart.race_of(
                [one for one in slowest.writers or [] if one.state not in {"expired", "left"}],
                live,
                watermark=brief.watermark,
                holder=holder,
                tone=standing.tone,
                times=times,
            ),
            "tab": self._draw_tab(view, watch, watches[-1], standing, times),
        }

    def _draw_tab(  # noqa: PLR0911 (one for each tab)
        self,
        view: StreamView,
        watch: StreamWatch,
        writers: Watch,
        standing: Standing,
        times: Times,
    ) -> Part | None:
        info, clock = watch.info, watch.clock
        if info is None or clock is None:
            return None
        groups = self._groups_of([view.stream])[view.stream]
        if view.tab == "segments":
            places = [
                segments.ReaderPlace(one.group, number, offset)
                for one in groups
                for window in one.windows or ()
                if window.stream == view.stream
                for number, offset in window.position.items()
            ]
            cut = clock.mark.cut if clock.mark else {}
            return segments.segments_tab(info, cut, places)
        if view.tab == "marks":
            return tabs.marks_tab(watch.marks, times)
        if view.tab == "readers":
            return tabs.readers_tab(view.stream, groups, times, clock.watermark)
        if view.tab == "settings":
            return tabs.settings_tab(
                info, watch.transactions.transactions if watch.transactions else []
            )
        assert isinstance(writers, WritersWatch)  # noqa: S101 (as `watches_of` makes them)
        if writers.writers is None:
            return None
        return tabs.writers_tab(
            writers.writers,
            info.config,
            standing=standing,
            total=sum(clock.explanation.states.values()),
            most=SLOWEST,
            prefix=view.prefix,
            asked_ms=writers.asked_ms,
            times=times,
        )

    # a group

    def _draw_group(self, watches: Sequence[Watch], now_ms: int) -> Part:
        (watch,) = watches
        assert isinstance(watch, GroupWatch)  # noqa: S101 (as `watches_of` makes them)
        details, windows = watch.details, watch.windows
        if details is None or windows is None:
            return {}
        gone = sorted(set(details.streams) - {one.stream for one in windows.windows})
        return {
            "sections": [
                group.section_of(details, one, watch.streams[one.stream], now_ms=now_ms)
                for one in group.farthest_first(windows.windows)
                if one.stream in watch.streams
            ],
            "more": group.more_of(len(windows.windows) - len(watch.streams)),
            "gone": gone,
            "readers": group.readers_of(details, watch.streams, now_ms=watch.seen_ms),
            "progress": group.progress_of(details.progress, now_ms=watch.seen_ms),
        }


def watches_of(feed: Feed, view: View) -> list[Watch]:
    """Watch what a view shows; raises ``ValueError`` for what is no name, and so no address."""
    if isinstance(view, GroupView):
        parse_group(view.group)
        return [feed.watch_group(view.group)]
    if isinstance(view, OverviewView):
        return []
    StreamName.parse(view.stream)
    watches: list[Watch] = [feed.watch_stream(view.stream), feed.watch_writers(view.stream, "")]
    if view.prefix and view.tab == "writers":
        watches.append(feed.watch_writers(view.stream, view.prefix))
    return watches


def place_of(view: View) -> str:
    """Name what a view is about."""
    if isinstance(view, StreamView):
        return view.stream
    return view.group if isinstance(view, GroupView) else ""


def _rate(watch: StreamWatch, now_ms: int) -> float:
    recent = sum(1 for at in watch.marked[-1_000:] if at > now_ms - _RATE_MS)
    return 1_000 * recent / _RATE_MS


def pace_of(watch: StreamWatch, now_ms: int) -> Pace:
    """Tell how a stream has moved, by those of its marks that the overview would count."""
    marked = watch.marked[bisect_right(watch.marked, now_ms - TUBE_MS) :]
    distance = (marked[-1] - marked[0]) / (len(marked) - 1) if len(marked) > 1 else None
    changes = watch.watermarks.since(now_ms - _GAIN_MS)
    gain = None
    if len(changes) > 1:
        (first_at, first), (last_at, last) = changes[0], changes[-1]
        gain = (last - first) / max(last_at - first_at, 1)
    return Pace(distance, gain, _rate(watch, now_ms))
