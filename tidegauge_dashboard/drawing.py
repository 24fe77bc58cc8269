"""Drawing: what a view shows, made of the answers of the service."""

import time
from collections.abc import Mapping, Sequence

from tidegauge.explain.first_steps import WATERMARK, addressed, first_commands
from tidegauge.explain.states import (
    LABELS,
    MEANINGS,
    TONES,
    Judgement,
    Pace,
    judgement_of,
    trouble_first,
)
from tidegauge.wire.groups import ListedGroup
from tidegauge_dashboard.feed import Feed, Seen
from tidegauge_dashboard.page import chart, group, groups, headline, overview, segments, tabs
from tidegauge_dashboard.page.overview import Entry
from tidegauge_dashboard.page.pace import pace_of
from tidegauge_dashboard.page.sorting import sorted_by
from tidegauge_dashboard.page.words import Part, Times
from tidegauge_dashboard.views import GroupsView, HelpView, OverviewView, StreamView, View
from tidegauge_dashboard.watches import GroupWatch, StreamWatch, Watch, WritersWatch

_ORDER_S = 5.0


class Drawing:
    """Draws views.

    Parameters
    ----------
    held_after_ms
        A stream counts as held once its watermark stands for so long, ms.
    shown_url
        Where people reach the service.
    """

    def __init__(self, feed: Feed, *, held_after_ms: int, shown_url: str) -> None:
        self.feed = feed
        self.shown_url = shown_url
        self._held_after_ms = held_after_ms
        self._judgements: dict[str, Judgement] = {}
        self._paces: dict[str, Pace] = {}
        self._judged: Mapping[str, Seen] | None = None
        self._orders: dict[str, list[str]] = {"": []}
        self._ordered_s = 0.0

    def held(self, now_ms: int) -> int:
        """Count the streams that are held."""
        self._judge(now_ms)
        return sum(one.is_held for one in self._judgements.values())

    def draw(self, view: View, watches: Sequence[Watch], now_ms: int) -> Part:
        """Draw a view as of a moment; nothing while its answers are not there yet."""
        refusal = next((one.refusal for one in watches if one.refusal), None)
        if refusal is not None:
            return {"missing": refusal}
        if isinstance(view, OverviewView):
            return self._draw_overview(view, now_ms)
        if isinstance(view, StreamView):
            return self._draw_stream(view, watches, now_ms)
        if isinstance(view, GroupsView):
            return self._draw_groups(view)
        if isinstance(view, HelpView):
            return self._draw_help()
        return self._draw_group(watches, now_ms)

    # the overview

    def _judge(self, now_ms: int) -> None:
        """Decide the state of each stream, once for each list of them."""
        if self._judged is self.feed.streams:
            return
        self._judged = self.feed.streams
        self._paces = {
            name: pace_of(seen.revisions, seen.watermarks, now_ms)
            for name, seen in self._judged.items()
        }
        self._judgements = {
            name: judgement_of(
                seen.brief,
                self._paces[name],
                now_ms=seen.listed_ms,
                held_after_ms=self._held_after_ms,
            )
            for name, seen in self._judged.items()
        }
        if time.monotonic() - self._ordered_s >= _ORDER_S or self._order_misses():
            self._orders = {"": trouble_first(self._judgements)}
            self._ordered_s = self.feed.listed_s

    def _order_misses(self) -> bool:
        order = self._orders[""]
        return len(order) != len(self._judgements) or any(
            name not in self._judgements for name in order
        )

    def _order_by(self, sort: str) -> list[str]:
        """Return all streams in an order that stays for a while: rows are not to jump."""
        found = self._orders.get(sort)
        if found is None:
            order = self._orders[""]
            briefs = {name: seen.brief for name, seen in self.feed.streams.items()}
            groups = self._groups_of(order)
            columns = overview.columns_of(order, briefs, self._paces, groups.__getitem__)
            found = self._orders[sort] = sorted_by(order, sort, columns)
        return found

    def _draw_overview(self, view: OverviewView, now_ms: int) -> Part:
        refusal = self.feed.asks_streams.refusal
        if refusal is not None or not self.feed.listed:
            return {"missing": refusal}
        self._judge(now_ms)
        streams, judgements = self.feed.streams, self._judgements
        found = [
            name
            for name in self._order_by(view.sort)
            if (view.state is None or judgements[name].state == view.state)
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
                    judgements[name],
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
                "pills": overview.pills_of(judgements.values(), view.state),
                "rows": rows,
                "page": page,
                "pages": pages,
                "groups_refusal": self.feed.asks_groups.refusal,
                "empty": overview.empty_of(
                    len(streams), len(rows), wanted=view.search, url=self.shown_url
                ),
            }
        }

    def _addressed(self, part: Part) -> Part:
        """Send the command of a part, if it has one, to the service that is shown."""
        command = part.get("command")
        return part | {"command": addressed(command, self.shown_url)} if command else part

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
        pace = pace_of(watch.revisions, watch.watermarks, now_ms)
        judgement = judgement_of(
            brief,
            pace,
            now_ms=watch.seen_ms,
            held_after_ms=self._held_after_ms,
        )
        times = Times.of(follows_clock=brief.follows_clock, example=brief.watermark)
        open_ones = watch.transactions.transactions if watch.transactions else []
        holders = clock.explanation.holders
        holder = holders[0].writer if judgement.is_held and holders else None
        grid = chart.grid_of(now_ms, view.span if view.span in chart.SPANS_S else 300)
        states = clock.explanation.states
        live = sum(states.get(one, 0) for one in overview.LIVE)
        return {
            "head": self._addressed(
                headline.head_of(
                    brief,
                    judgement,
                    clock,
                    clock_ms=watch.seen_ms,
                    marks_per_s=pace.marks_per_s,
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
                tone=judgement.tone,
                times=times,
            ),
            "strip": chart.held_by(watch.holders, grid, now_ms=now_ms),
            "race": chart.race_of(
                [one for one in slowest.writers or [] if one.state not in {"expired", "left"}],
                live,
                watermark=brief.watermark,
                holder=holder,
                tone=judgement.tone,
                times=times,
            ),
            "tab": self._draw_tab(view, watch, watches[-1], judgement, times),
        }

    def _draw_tab(  # noqa: PLR0911 (one for each tab)
        self,
        view: StreamView,
        watch: StreamWatch,
        writers: Watch,
        judgement: Judgement,
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
            return tabs.marks_tab(watch.marks, times, info.config)
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
            judgement=judgement,
            total=sum(clock.explanation.states.values()),
            prefix=view.prefix,
            sort=view.sort,
            asked_ms=writers.asked_ms,
            times=times,
        )

    # the groups

    def _draw_groups(self, view: GroupsView) -> Part:
        if not self.feed.listed_groups:
            return {"missing": self.feed.asks_groups.refusal}
        briefs = {name: seen.brief for name, seen in self.feed.streams.items()}
        found = groups.entries_of(self.feed.groups.values(), briefs, view.search)
        found = sorted_by(found, view.sort, groups.COLUMNS)
        pages = max(1, -(-len(found) // overview.PAGE_ROWS))
        page = min(view.page, pages)
        first = (page - 1) * overview.PAGE_ROWS
        total = len(self.feed.groups)
        return {
            "list": {
                "total": f"{total:,}",
                "rows": list(map(groups.row_of, found[first : first + overview.PAGE_ROWS])),
                "page": page,
                "pages": pages,
                "empty": groups.empty_of(total, found, wanted=view.search),
            }
        }

    def _draw_help(self) -> Part:
        return {
            "help": {
                "watermark": WATERMARK,
                "commands": list(first_commands(self.shown_url.partition(",")[0])),
                "states": [
                    {"label": LABELS[state], "tone": TONES[state], "text": text}
                    for state, text in MEANINGS.items()
                ],
            }
        }

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
