"""The tables of a stream's page: its writers, marks, readers and settings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tidegauge.explain.states import Judgement
from tidegauge.wire.groups import ListedGroup
from tidegauge.wire.streams import CreateStream, MarkInfo, StreamConfig, StreamInfo
from tidegauge.wire.transactions import TransactionInfo
from tidegauge.wire.writers import WriterInfo
from tidegauge_dashboard.page.overview import behind_of
from tidegauge_dashboard.page.sorting import sorted_by
from tidegauge_dashboard.page.words import Part, Times, grouped, plural, rounded, span_text

SLOWEST = 50
"""How many writers are asked for at most."""
_SEGMENTS_SHOWN = 12
_NEAR = 25
"""Percent of its limit from which on a clock is shown in the tone of its writer."""
_SETTINGS: dict[str, tuple[str, bool]] = {
    "max_segments": ("open segments, at most", False),
    "aggregation_timeout_ms": ("silence of a writer, at most", True),
    "hold_limit_ms": ("standstill of a writer, at most", True),
    "min_writers": ("writers before the first mark", False),
    "mark_interval_ms": ("time between two passes, at least", True),
    "mark_resolution_ms": ("event time between two marks, at least", True),
    "mark_retention_ms": ("old marks are kept for", True),
    "writer_retention_ms": ("writers that left are kept for", True),
    "max_future_skew_ms": ("times ahead of the clock, at most", True),
}
_DEFAULTS = CreateStream()
_COLUMNS: Mapping[str, Callable[[WriterInfo], object]] = {
    "writer": lambda one: one.writer,
    "state": lambda one: one.state,
    "stand": lambda one: one.stand,
    "behind": lambda one: one.behind_ms,
    "silent": lambda one: one.silent_ms,
    "silence": lambda one: one.silent_for_ms,
    "standing": lambda one: one.standing_for_ms,
    "incarnation": lambda one: one.incarnation,
}


def writers_tab(
    writers: Sequence[WriterInfo],
    config: StreamConfig,
    *,
    judgement: Judgement,
    total: int,
    prefix: str,
    sort: str = "",
    asked_ms: int,
    times: Times,
) -> Part:
    """Draw the slowest writers, or those whose names begin with something.

    Parameters
    ----------
    judgement
        What the stream is in.
    total
        How many there are, with those that left or expired.
    sort
        The column by which those that are drawn are sorted; empty as they were answered.
    """
    if prefix:
        what = f"{plural(len(writers), 'writer')} whose name begins with {prefix!r}"
    elif not total:
        what = "no writer yet"
    elif len(writers) == total:
        what = plural(total, "writer")
    else:
        # that are live: others may be left or expired
        are_all = len(writers) < min(SLOWEST, total)
        what = f"{len(writers)} {'live' if are_all else 'slowest'} of {grouped(total)} writers"
    if writers and not prefix and not sort:
        what += ", slowest first"
    return {
        "caption": what,
        "asked": asked_ms,
        "rows": [
            _writer_row(one, config, judgement, times)
            for one in sorted_by(writers, sort, _COLUMNS)
        ],
    }


def _writer_row(
    one: WriterInfo, config: StreamConfig, judgement: Judgement, times: Times
) -> Part:
    tone = judgement.tone_of(one.state)
    stand = times.moment(one.stand)
    return {
        "who": one.writer,
        "state": one.state,
        "tone": tone,
        "stand": stand or {"text": "nowhere yet"},
        "registered": one.stand_by == "registered",
        "behind": "" if one.behind_ms is None else times.distance(one.behind_ms),
        "silent": _silent(one),
        "silence": _clock(one.silent_for_ms, config.aggregation_timeout_ms, tone),
        "standing": _clock(one.standing_for_ms, config.hold_limit_ms, tone),
        "incarnation": str(one.incarnation) if one.incarnation else "–",  # noqa: RUF001
        "remark": _remark(one),
    }


def _silent(one: WriterInfo) -> str:
    """Show how long it has been silent, unless its clock of silence shows the same."""
    if one.silent_ms is None:
        return ""
    text = span_text(one.silent_ms)
    return (
        "" if one.silent_for_ms is not None and span_text(one.silent_for_ms) == text else text
    )


def _clock(shown_ms: int | None, most_ms: int | None, tone: str) -> Part | None:
    """Draw what a clock shows as a bar of its limit, in the tone of its writer; None if it does not run."""
    if shown_ms is None:
        return None
    if most_ms is None:
        return {"part": 0, "tone": "grey", "text": f"{span_text(shown_ms)}, no limit"}
    part = min(100, round(100 * shown_ms / max(most_ms, 1)))
    text = f"{span_text(shown_ms)} of {span_text(most_ms)}"
    return {"part": part, "tone": tone if part > _NEAR else "grey", "text": text}


def _remark(one: WriterInfo) -> str:
    if one.catch_up_ms is not None:
        return f"on its way back, {span_text(one.catch_up_ms)} at its pace"
    return "grace" if one.grace and one.state in {"expired", "left"} else ""


def marks_tab(marks: Iterable[MarkInfo], times: Times, config: StreamConfig) -> Part:
    """Draw the newest marks with their cuts, of a table its versions, the newest first."""

    def text_of(cut: Mapping[int, int]) -> str:
        version = config.version_before(cut)
        return cut_text(cut) if version is None else f"version {grouped(version)}"

    return {
        "rows": [
            {
                "revision": grouped(mark.revision),
                "lower": times.moment(mark.lower),
                "upper": times.moment(mark.upper),
                "marked": None if mark.marked_ms is None else {"ms": mark.marked_ms},
                "cut": text_of(mark.cut),
            }
            for mark in reversed(list(marks))
        ]
    }


def cut_text(cut: Mapping[int, int]) -> str:
    """Write a cut, shortened if it has many segments."""
    some = [f"{number}:{offset}" for number, offset in list(cut.items())[:_SEGMENTS_SHOWN]]
    more = len(cut) - len(some)
    return "  ".join(some) + (f"  and {grouped(more)} more" if more else "")


def readers_tab(
    stream: str, groups: Iterable[ListedGroup], times: Times, watermark: int | None
) -> Part:
    """Draw the groups that read a stream, those farthest behind first."""
    rows: list[tuple[int, Part]] = []
    for group in groups:
        for window in group.windows or ():
            if window.stream != stream:
                continue
            behind, text, tone = behind_of(group, window, times, watermark)
            row: Part = {
                "group": group.group,
                "text": text,
                "tone": tone,
                "lower": times.moment(window.lower),
                "upper": times.moment(window.upper) or {"text": "at the tail"},
                "readers": grouped(len(group.state.readers)),
                "position": cut_text(window.position),
            }
            rows.append((-behind, row))
    rows.sort(key=lambda one: (one[0], one[1]["group"]))
    return {"rows": [row for _, row in rows]}


def settings_tab(info: StreamInfo, transactions: Iterable[TransactionInfo]) -> Part:
    """Draw the settings, what the scaling policy sees, and the open transactions."""
    config = info.config
    return {
        "rows": [
            _setting("log", "where the events are stored", config, str),
            _setting("table", "the table whose versions are the offsets", config, _table),
            _setting("segments", "segments at creation", config, grouped),
            _setting("scaling", "how the number of segments follows the load", config, str),
            _setting("retention", "how many events are retained", config, _retention),
            *(
                _setting(name, text, config, _span if is_span else _count)
                for name, (text, is_span) in _SETTINGS.items()
            ),
        ],
        "created": info.created_ms,
        "id": info.stream_id,
        "actions": [
            {
                "at": {"ms": one.created_ms},
                "text": f"{', '.join(map(str, one.sealed))} → {', '.join(map(str, one.added))}",
                "reason": one.reason,
            }
            for one in reversed(info.scaling.actions if info.scaling else [])
        ],
        "transactions": [
            {
                "id": one.id,
                "who": one.writer,
                "events": f"{plural(one.events, 'event', show=rounded)}, "
                f"{plural(one.size, 'byte', show=rounded)}",
                "left": "" if one.expires_in_ms is None else span_text(one.expires_in_ms),
            }
            for one in transactions
        ],
    }


def _setting(name: str, text: str, config: StreamConfig, show: Callable[[Any], str]) -> Part:
    """Draw a setting, with its default if that is another."""
    value, default = getattr(config, name), getattr(_DEFAULTS, name)
    if name == "scaling":
        default = "fixed"
    differs = value != default
    return {
        "name": name,
        "text": text,
        "value": show(value),
        "default": show(default) if differs else None,
    }


def _table(value: str | None) -> str:
    return "none" if value is None else value


def _retention(value: object) -> str:
    return "all" if value is None else str(value)


def _count(value: int | None) -> str:
    return "no limit" if value is None else grouped(value)


def _span(span_ms: int | None) -> str:
    return "no limit" if span_ms is None else span_or_ms(span_ms)


def span_or_ms(span_ms: int) -> str:
    """Show a span that somebody set, exactly if it is short."""
    return f"{span_ms} ms" if span_ms < 1_000 else span_text(span_ms)
