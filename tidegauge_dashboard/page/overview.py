"""The overview: all streams, trouble first."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.first_steps import WATERMARK, first_commands
from tidegauge.explain.states import LABELS, Judgement, Pace, Tone
from tidegauge.states import WriterState
from tidegauge.wire.groups import ListedGroup, TimeWindowInfo
from tidegauge.wire.streams import BriefExplanation, StreamBrief
from tidegauge_dashboard.page.scales import relative_heights, water_height
from tidegauge_dashboard.page.words import (
    Part,
    Times,
    grouped,
    per_second,
    plural,
    table_text,
)

PAGE_ROWS = 25
BIN_MS = 5_000
BINS = 60
_LINES = tuple(map(water_height, (60_000, 3_600_000)))
_EDGES = {"red": "red", "amber": "amber"}
_WRITERS: tuple[WriterState, ...] = ("active", "behind", "joining", "expired", "left")
LIVE: tuple[WriterState, ...] = ("joining", "active", "behind")
_FEW_GROUPS = 3
_LATE_MS = 60_000


@dataclass(frozen=True, slots=True)
class Entry:
    """A stream as the overview knows it.

    Attributes
    ----------
    brief
        What the list says of it.
    judgement, pace
        What it is in, and how it moves.
    tide
        Its watermark at the end of each of the last `BINS` spans of `BIN_MS`.
    listed_ms
        The service's clock when the list said it.
    """

    brief: StreamBrief
    judgement: Judgement
    pace: Pace
    tide: Sequence[int | None]
    listed_ms: int


def matches(brief: StreamBrief, wanted: str) -> bool:
    """Whether somebody who types this looks for the stream, or for who holds it."""
    holder = brief.explanation.holder if brief.explanation else None
    text = wanted.lower()
    return text in brief.stream.lower() or (holder is not None and text in holder.lower())


def pills_of(judgements: Collection[Judgement], chosen: str | None = None) -> list[Part]:
    """Count the streams in each state; the chosen one stays, so that it can be chosen no more."""
    counts = Counter(one.state for one in judgements)
    reds = {one.state for one in judgements if one.tone == "red"}
    tones = {one.state: one.tone for one in judgements}
    return [
        {
            "state": state,
            "text": f"{grouped(counts[state])} {label}",
            "tone": "red" if state in reds else tones.get(state, "grey"),
        }
        for state, label in LABELS.items()
        if counts[state] or state == chosen
    ]


def row_of(entry: Entry, groups: Sequence[ListedGroup], *, now_ms: int) -> Part:
    """Draw one stream."""
    brief, judgement = entry.brief, entry.judgement
    times = Times.of(follows_clock=brief.follows_clock, example=brief.watermark)
    age_ms, mark = None, brief.watermark
    if times.follows_clock and times.dated and mark is not None and mark != END_OF_TIME:
        age_ms = now_ms - mark
    return {
        "stream": brief.stream,
        "table": table_text(brief.table, brief.version),
        "label": judgement.label,
        "tone": judgement.tone,
        "edge": _EDGES.get(judgement.tone, "none"),
        "since": judgement.since_ms,
        **_blame(brief, judgement, listed_ms=entry.listed_ms),
        "tube": _tube(entry, times, now_ms=now_ms),
        "watermark": times.moment(brief.watermark),
        "aged": brief.watermark if age_ms is not None and age_ms >= 0 else None,
        "ahead": brief.watermark if age_ms is not None and age_ms < 0 else None,
        "writers": writers_of(brief.explanation, judgement),
        "readers": _readers_of(brief, groups, times),
        "marks": per_second(entry.pace.marks_per_s) if brief.revision else "",
    }


def _blame(brief: StreamBrief, judgement: Judgement, *, listed_ms: int) -> dict[str, object]:
    """Say who is to blame, and until when."""
    explanation, state = brief.explanation, judgement.state
    if explanation is None:
        return {"note": None}
    if state == "held":
        left_ms = explanation.next_expiry_ms
        more = explanation.holder_count - 1
        notes = [
            None if left_ms is not None else until_of(brief, explanation),
            explanation.hint,
        ]
        return {
            "who": explanation.holder,
            "others": f"and {grouped(more)} more" if more > 0 else None,
            "drops": None if left_ms is None else listed_ms + left_ms,
            "note": " · ".join(filter(None, notes)) or None,
        }
    said = {
        "few": "min_writers not met",
        "nobody": "all writers left or expired",
        "silent": "no writer reports, so none expires",
        "quiet": "all caught up",
        "unused": "no writer yet",
        "ended": "sealed",
        "odd": explanation.hint,
    }
    return {"note": said.get(state)}


def until_of(brief: StreamBrief, explanation: BriefExplanation) -> str:
    """Describe what has to happen before who holds is dropped: time passes for it while others go on."""
    if not brief.drops_writers:
        return "never dropped"
    live = sum(explanation.states.get(one, 0) for one in LIVE)
    if explanation.waiting_count and live == explanation.holder_count:
        return "not dropped: all others left"
    return "dropped if others report"


def writers_of(explanation: BriefExplanation | None, judgement: Judgement) -> list[Part]:
    """Count the writers in each state."""
    states: Mapping[WriterState, int] = explanation.states if explanation else {}
    return [
        {"text": f"{grouped(states[state])} {state}", "tone": judgement.tone_of(state)}
        for state in _WRITERS
        if states.get(state)
    ]


def _tube(entry: Entry, times: Times, *, now_ms: int) -> Part | None:
    brief, tide = entry.brief, entry.tide
    if brief.final or all(value is None for value in tide):
        return None
    tone = entry.judgement.tone if entry.judgement.is_held else "blue"
    if times.follows_clock:
        end_ms = now_ms - now_ms % BIN_MS
        heights = [
            None if value is None else water_height(end_ms - BIN_MS * (BINS - 1 - at) - value)
            for at, value in enumerate(tide)
        ]
        text = "How old the watermark was over five minutes: full is now, empty is two days"
        return {"heights": heights, "tone": tone, "lines": _LINES, "text": text}
    text = "How the watermark rose over five minutes"
    return {"heights": relative_heights(tide), "tone": tone, "lines": (), "text": text}


def _behinds(
    brief: StreamBrief, groups: Sequence[ListedGroup], times: Times
) -> list[tuple[int, Part]]:
    """Return how far each group that reads a stream is behind it: an order, and what is drawn."""
    found: list[tuple[int, Part]] = []
    for group in groups:
        for window in group.windows or ():
            if window.stream == brief.stream and window.stream_id == brief.stream_id:
                behind, text, tone = behind_of(group, window, times, brief.watermark)
                found.append((behind, {"group": group.group, "text": text, "tone": tone}))
    return found


def _readers_of(brief: StreamBrief, groups: Sequence[ListedGroup], times: Times) -> list[Part]:
    """Draw how far the groups that read a stream are behind it, the farthest first."""
    found = _behinds(brief, groups, times)
    found.sort(key=lambda one: (-one[0], one[1]["group"]))
    shown = [part for _, part in found[:_FEW_GROUPS]]
    if len(found) > _FEW_GROUPS:
        shown.append(
            {"text": f"and {plural(len(found) - _FEW_GROUPS, 'other')}", "tone": "grey"}
        )
    return shown


def behind_of(
    group: ListedGroup, window: TimeWindowInfo, times: Times, watermark: int | None
) -> tuple[int, str, str]:
    """Return how far a group is behind the watermark of a stream: an order, words, and a tone."""
    nobody, tone = not group.state.readers, tone_of(window, times, watermark)
    if watermark is None:
        return (1 if nobody else 0), ("no readers" if nobody else "no mark yet"), tone
    if window.next_mark is None:
        return 0, "no readers" if nobody else "caught up", tone
    if nobody:
        return 2**62, "no readers", tone
    if window.lower is None:
        return 2**61, "before the first mark", tone
    if watermark == END_OF_TIME:
        return 2**60, "not at the end yet", tone
    behind = watermark - window.lower
    return behind, f"{times.distance(behind)} behind", tone


def tone_of(window: TimeWindowInfo, times: Times, watermark: int | None) -> Tone:
    """Return the tone of a group in a stream: amber if it is far behind, whether or not anybody reads."""
    if watermark is None or window.next_mark is None:
        return "grey"
    if window.lower is None:
        return "amber"
    if watermark == END_OF_TIME:
        return "grey"
    return "amber" if times.dated and watermark - window.lower > _LATE_MS else "grey"


def empty_of(total: int, shown: int, *, wanted: str, url: str) -> Part | None:
    """Describe why there is no row; None if there is one. A service without streams teaches."""
    if shown:
        return None
    if not total:
        return {
            "text": "No stream yet.",
            "watermark": WATERMARK,
            "commands": list(first_commands(url)),
        }
    return {"text": f"No stream fits {wanted!r}." if wanted else "No stream is in this state."}


def columns_of(
    order: Sequence[str],
    briefs: Mapping[str, StreamBrief],
    paces: Mapping[str, Pace],
    groups: Callable[[str], Sequence[ListedGroup]],
) -> dict[str, Callable[[str], object]]:
    """Return what the streams are sorted by, by the name of the column.

    Parameters
    ----------
    order
        All of them, trouble first.
    groups
        Those that read a stream.
    """
    ranks = {name: rank for rank, name in enumerate(order)}

    def live(name: str) -> int:
        explanation = briefs[name].explanation
        return sum(explanation.states.get(one, 0) for one in LIVE) if explanation else 0

    def behind(name: str) -> int | None:
        brief = briefs[name]
        times = Times.of(follows_clock=brief.follows_clock, example=brief.watermark)
        return max((one for one, _ in _behinds(brief, groups(name), times)), default=None)

    return {
        "stream": lambda name: name,
        "state": ranks.__getitem__,
        "watermark": lambda name: briefs[name].watermark,
        "writers": live,
        "readers": behind,
        "marks": lambda name: paces[name].marks_per_s,
    }
