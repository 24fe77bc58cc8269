"""The connections of the pages that are open: what each shows, and what it was sent."""

import asyncio

from tidegauge.names import StreamName, parse_group
from tidegauge.states import HELD_AFTER_MS
from tidegauge_dashboard.cache import Cache
from tidegauge_dashboard.drawing import Drawing
from tidegauge_dashboard.feed import Feed
from tidegauge_dashboard.views import GroupView, StreamView, View
from tidegauge_dashboard.watches import Watch

_TICK_S = 1.0
_CHECKS = 10
"""In a tick: how often pages that wait for a first answer check whether it is there."""


class Page:
    """One page that is open in a browser.

    Attributes
    ----------
    turn
        Set when there may be something new to draw.
    """

    def __init__(self, feed: Feed, cache: Cache) -> None:
        self.turn = asyncio.Event()
        self._feed = feed
        self._cache = cache
        self._view: View | None = None
        self._watches: list[Watch] = []
        self._sent: dict[str, bytes] = {}
        self._problem: str | None = None

    def show(self, view: View) -> None:
        """Show something else from now on."""
        former = self._watches
        self._count(self._view, view)
        try:
            self._watches, self._problem = watches_of(self._feed, view), None
        except ValueError as error:  # somebody typed an address that names nothing
            self._watches, self._problem = [], str(error)
        for watch in former:
            self._feed.release(watch)
        self._view = view
        self._sent = {}
        self.turn.set()

    def close(self) -> None:
        """Show nothing any more."""
        for watch in self._watches:
            self._feed.release(watch)
        self._watches = []
        self._count(self._view, None)
        self._view = None

    def check(self) -> None:
        """Take a turn at once if an answer that was missing has arrived."""
        if self._view is None or self._cache.is_drawn(self._view):
            return
        try:
            self._cache.parts_of(self._view, self._watches, problem=self._problem)
        except Exception:  # noqa: BLE001 (its own turn meets that again: others go on)
            self.turn.set()
        if self._cache.is_drawn(self._view):
            self.turn.set()

    def _count(self, former: View | None, view: View | None) -> None:
        if view is not None:
            self._feed.open(overview=view.kind == "overview")
        if former is not None:
            self._feed.close(overview=former.kind == "overview")

    def message(self) -> str | None:
        """Write what changed since the last message; None while nothing is shown."""
        if self._view is None:
            return None
        parts = self._cache.parts_of(self._view, self._watches, problem=self._problem)
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
        self._feed = feed
        shown_url = (shown_url or feed.asking.url).rstrip("/")
        drawing = Drawing(feed, held_after_ms=held_after_ms, shown_url=shown_url)
        self._cache = Cache(drawing)
        self._open: set[Page] = set()

    def open(self) -> Page:
        """Open one that shows nothing yet."""
        page = Page(self._feed, self._cache)
        self._open.add(page)
        return page

    def close(self, page: Page) -> None:
        """Close it."""
        self._open.discard(page)
        page.close()

    async def run(self) -> None:
        """Let every page draw once a second."""
        while True:
            for _ in range(_CHECKS):
                await asyncio.sleep(_TICK_S / _CHECKS)
                for page in self._open:
                    page.check()
            self._cache.clear()
            self._feed.reap()
            for page in self._open:
                page.turn.set()


def watches_of(feed: Feed, view: View) -> list[Watch]:
    """Watch what a view shows; raises ``ValueError`` for what is no name, and so no address."""
    if isinstance(view, GroupView):
        parse_group(view.group)
        return [feed.watch_group(view.group)]
    if not isinstance(view, StreamView):
        return []
    StreamName.parse(view.stream)
    watches: list[Watch] = [feed.watch_stream(view.stream), feed.watch_writers(view.stream, "")]
    if view.prefix and view.tab == "writers":
        watches.append(feed.watch_writers(view.stream, view.prefix))
    return watches
