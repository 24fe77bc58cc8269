"""The tables of a stream's page: its writers, marks, readers and settings."""

from collections.abc import Iterable, Mapping, Sequence

from tidegauge.explain.states import Standing
from tidegauge.wire.groups import ListedGroup
from tidegauge.wire.streams import MarkInfo, StreamConfig, StreamInfo
from tidegauge.wire.transactions import TransactionInfo
from tidegauge.wire.writers import WriterInfo
from tidegauge_dashboard.look.overview import behind_of
from tidegauge_dashboard.look.words import Part, Times, grouped, plural, rounded, span_text

_SEGMENTS_SHOWN = 12
_NEAR = 25
"""Percent of its limit from which on a clock is shown in the tone of its writer."""
_SETTINGS: dict[str, tuple[str, bool]] = {
    "max_segments": ("most segments at once", False),
    "aggregation_timeout_ms": ("a writer may be silent", True),
    "hold_limit_ms": ("a writer may stand still", True),
    "min_writers": ("writers before the first mark", False),
    "mark_interval_ms": ("at most one pass in", True),
    "mark_resolution_ms": ("least distance of marks", True),
    "mark_retention_ms": ("marks are kept", True),
    "writer_retention_ms": ("writers that are gone are kept", True),
    "max_future_skew_ms": ("times may be ahead of the clock", True),
}


def writers_tab(  # noqa: PLR0913 (what a picture is made of)
    writers: Sequence[WriterInfo],
    config: StreamConfig,
    *,
    standing: Standing,
    total: int,
    most: int,
    prefix: str,
    asked_ms: int,
    times: Times,
) -> Part:
    """Draw the slowest writers, or those whose names begin with something.

    Parameters
    ----------
    standing
        What the stream is in.
    total
        How many there are, with those that left or expired.
    most
        How many were asked for.
    """
    if prefix:
        what = f"{plural(len(writers), 'writer')} whose name begins with {prefix!r}"
    elif not total:
        what = "nobody wrote yet"
    else:
        # that are live: others may be left or expired
        are_all = len(writers) < min(most, total)
        what = f"the {len(writers)} {'live' if are_all else 'slowest'} of {grouped(total)}"
    return {
        "caption": what,
        "asked": asked_ms,
        "rows": [_writer_row(one, config, standing, times) for one in writers],
    }


def _writer_row(
    one: WriterInfo, config: StreamConfig, standing: Standing, times: Times
) -> Part:
    tone = standing.tone_of(one.state)
    stand = times.moment(one.stand)
    return {
        "who": one.writer,
        "state": one.state,
        "tone": tone,
        "stand": stand or {"text": "nowhere yet"},
        "told": one.stand_by == "told",
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


def marks_tab(marks: Iterable[MarkInfo], times: Times) -> Part:
    """Draw the newest marks with their cuts, the newest first."""
    return {
        "rows": [
            {
                "revision": grouped(mark.revision),
                "lower": times.moment(mark.lower),
                "upper": times.moment(mark.upper),
                "marked": None if mark.marked_ms is None else {"ms": mark.marked_ms},
                "cut": cut_text(mark.cut),
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
    rows = [
        {"name": name, "text": text, "value": _value(getattr(config, name), is_span=is_span)}
        for name, (text, is_span) in _SETTINGS.items()
    ]
    scaling = "fixed" if config.scaling == "fixed" else str(config.scaling)
    retention = "all are kept" if config.retention is None else str(config.retention)
    return {
        "rows": [
            {"name": "log", "text": "where the events live", "value": config.log},
            {"name": "segments", "text": "created with", "value": grouped(config.segments)},
            {"name": "scaling", "text": "how segments follow the load", "value": scaling},
            {"name": "retention", "text": "how many events are kept", "value": retention},
            *rows,
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


def _value(value: int | None, *, is_span: bool) -> str:
    if value is None:
        return "no limit"
    return span_or_ms(value) if is_span else grouped(value)


def span_or_ms(span_ms: int) -> str:
    """Show a span that somebody set, exactly if it is short."""
    return f"{span_ms} ms" if span_ms < 1_000 else span_text(span_ms)
