"""The cache of drawn views: what several pages show is drawn once."""

from collections.abc import Sequence
from importlib.metadata import version

from pydantic_core import to_json

from tidegauge_dashboard.drawing import Drawing
from tidegauge_dashboard.page.words import Part
from tidegauge_dashboard.views import GroupView, StreamView, View
from tidegauge_dashboard.watches import Watch

_VERSION = version("tidegauge")


class Cache:
    """Views as JSON, kept until they are to be drawn anew."""

    def __init__(self, drawing: Drawing) -> None:
        self._drawing = drawing
        self._made: dict[View, dict[str, bytes]] = {}

    def clear(self) -> None:
        """Drop all: they are drawn anew."""
        self._made.clear()

    def is_drawn(self, view: View) -> bool:
        """Whether a view was drawn since it was cleared."""
        return view in self._made

    def parts_of(
        self, view: View, watches: Sequence[Watch], *, problem: str | None = None
    ) -> dict[str, bytes]:
        """Return the parts of a view as JSON, drawn unless they are kept."""
        made = self._made.get(view)
        if made is None:
            feed = self._drawing.feed
            outage = feed.outage(watches)
            # in an outage nobody is dropped, and nothing is known to be held: all is as it was seen
            seen_ms = watches[0].seen_ms if watches else feed.listed_ms
            stopped_ms = seen_ms if outage else 0
            common: Part = {
                "view": view.model_dump_json(),
                "kind": view.kind,
                "place": place_of(view),
                "now": feed.asking.now_ms(),
                "stopped": stopped_ms or None,
                "service": self._drawing.shown_url.partition(",")[0],
                "version": _VERSION,
                "held": self._drawing.held(stopped_ms or feed.asking.now_ms()),
                "outage": None
                if outage is None
                else {
                    "url": outage.url,
                    "since": None
                    if outage.since_ms is None
                    else outage.since_ms + feed.asking.skew_ms,
                    "reason": outage.reason,
                },
                "missing": None,
            }
            drawn = common | (
                {"missing": problem}
                if problem
                else self._drawing.draw(view, watches, stopped_ms or feed.asking.now_ms())
            )
            made = {name: to_json(part) for name, part in drawn.items()}
            if len(made) > len(common):  # nothing is there yet: the next draw may have it
                self._made[view] = made
        return made


def place_of(view: View) -> str:
    """Return the name of the stream or group that a view shows."""
    if isinstance(view, StreamView):
        return view.stream
    return view.group if isinstance(view, GroupView) else ""
