"""The list of reader groups, those farthest behind first."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.wire.groups import ListedGroup
from tidegauge.wire.streams import StreamBrief
from tidegauge_dashboard.page.overview import behind_of
from tidegauge_dashboard.page.words import Part, Times, grouped, plural

_FEW_STREAMS = 3


@dataclass(frozen=True, slots=True)
class GroupEntry:
    """A group as the list knows it.

    Attributes
    ----------
    listed
        What the service says of it.
    behind, text, tone
        How it is doing in the stream where it is farthest behind: an order, words, and a tone.
    farthest
        That stream; None if all of them are deleted.
    """

    listed: ListedGroup
    behind: int
    text: str
    tone: str
    farthest: str | None


COLUMNS: Mapping[str, Callable[[GroupEntry], object]] = {
    "group": lambda one: one.listed.group,
    "streams": lambda one: len(one.listed.streams),
    "readers": lambda one: len(one.listed.state.readers),
    "behind": lambda one: one.behind,
}


def entries_of(
    groups: Iterable[ListedGroup], streams: Mapping[str, StreamBrief], wanted: str
) -> list[GroupEntry]:
    """List the groups whose name, or a stream of which, contains a text; the farthest behind first."""
    text = wanted.lower()
    found = [
        _entry_of(one, streams)
        for one in groups
        if text in one.group.lower() or any(text in name.lower() for name in one.streams)
    ]
    return sorted(found, key=lambda one: (-one.behind, one.listed.group))


def _entry_of(group: ListedGroup, streams: Mapping[str, StreamBrief]) -> GroupEntry:
    worst = GroupEntry(group, -1, "its streams are deleted", "grey", None)
    for window in group.windows or ():
        brief = streams.get(window.stream)
        follows = brief is None or brief.follows_clock
        times = Times.of(follows_clock=follows, example=window.watermark)
        behind, text, tone = behind_of(group, window, times, window.watermark)
        if behind > worst.behind:
            worst = GroupEntry(group, behind, text, tone, window.stream)
    return worst


def row_of(entry: GroupEntry) -> Part:
    """Draw one group."""
    group = entry.listed
    more = len(group.streams) - _FEW_STREAMS
    return {
        "group": group.group,
        "text": entry.text,
        "tone": entry.tone,
        "farthest": entry.farthest if entry.behind > 0 and len(group.streams) > 1 else None,
        "readers": grouped(len(group.state.readers)),
        "streams": list(group.streams[:_FEW_STREAMS]),
        "more": f"and {plural(more, 'other')}" if more > 0 else None,
    }


def empty_of(total: int, shown: Sequence[GroupEntry], *, wanted: str) -> str | None:
    """Describe why there is no row; None if there is one."""
    if shown:
        return None
    if total:
        return f"No reader group fits {wanted!r}."
    return "No reader group yet: the first reader of a group, or a Spark query with the option group, makes it."
