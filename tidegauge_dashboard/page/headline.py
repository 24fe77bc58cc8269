"""The head of a stream's page: one large sentence, why, and what to type."""

from collections.abc import Sequence

from tidegauge.event_time import END_OF_TIME
from tidegauge.explain.states import Judgement, State, is_holding
from tidegauge.wire.streams import StreamBrief, StreamInfo
from tidegauge.wire.transactions import TransactionInfo
from tidegauge.wire.writers import ExplanationInfo, Watermark, WriterInfo
from tidegauge_dashboard.page.overview import until_of, writers_of
from tidegauge_dashboard.page.words import (
    Part,
    Times,
    grouped,
    per_second,
    plural,
    rounded,
    table_text,
)

_NAMES = 3
_MOVING: frozenset[State] = frozenset({"moving", "late", "catching"})


def brief_of(info: StreamInfo, clock: Watermark, stood_from_ms: int | None) -> StreamBrief:
    """Return of a described stream what the list has of it, so that it is judged alike."""
    fields = {name: getattr(clock.explanation, name) for name in _SHARED}
    holders = clock.explanation.holders
    return StreamBrief.model_validate(
        {
            "stream": info.stream,
            "stream_id": info.stream_id,
            "watermark": clock.watermark,
            "final": clock.final,
            "created_ms": info.created_ms,
            "revision": clock.mark.revision if clock.mark else 0,
            "marked_ms": stood_from_ms,
            "version": info.config.version_before(clock.mark.cut if clock.mark else None),
            "log": info.config.log,
            "table": info.config.table,
            "follows_clock": info.config.max_future_skew_ms is not None,
            "drops_writers": info.config.drops_writers,
            "segments": len(info.topology.segments),
            "events": events_of(info),
            "explanation": {**fields, "holder": holders[0].writer if holders else None},
        }
    )


_SHARED = (
    "reason",
    "stood_ms",
    "held_ms",
    "silent_ms",
    "states",
    "holder_count",
    "waiting_count",
    "next_expiry_ms",
    "hint",
)


def events_of(info: StreamInfo) -> int | None:
    """Count the events that the log holds, without what was truncated; None on external logs."""
    if info.tail is None:
        return None
    gone = _gone_before(info)
    return sum(info.tail.values()) - sum(gone.values())


def _gone_before(info: StreamInfo) -> dict[int, int]:
    """How many events of each segment were truncated: all of what lies before the first cut."""
    cut, tail = info.first_cut or {}, info.tail or {}
    ancestors = info.topology.to_topology().ancestors
    before = ancestors.listed(ancestors.of(cut))
    return {n: tail.get(n, 0) for n in before} | dict(cut)


def head_of(
    brief: StreamBrief,
    judgement: Judgement,
    clock: Watermark,
    *,
    clock_ms: int,
    marks_per_s: float,
    notes: Sequence[str] = (),
) -> Part:
    """Draw the head.

    Parameters
    ----------
    clock_ms
        The service's clock when it explained.
    notes
        What else there is to know of the stream.
    """
    times = Times.of(follows_clock=brief.follows_clock, example=brief.watermark)
    explanation = clock.explanation
    aged = (
        times.follows_clock
        and times.dated
        and brief.watermark is not None
        and brief.watermark != END_OF_TIME
    )
    rate = per_second(marks_per_s)
    is_well = judgement.state in {*_MOVING, "quiet", "ended"}
    return {
        "headline": _headline(brief, explanation, judgement, clock_ms=clock_ms),
        "sentence": _sentence(explanation, judgement, times, clock_ms=clock_ms),
        "cure": None if is_well else _as_sentence(explanation),
        "command": None if is_well else explanation.command,
        "hint": explanation.hint,
        "label": judgement.label,
        "tone": judgement.tone,
        "watermark": times.moment(brief.watermark),
        "aged": brief.watermark if aged else None,
        "writers": writers_of(brief.explanation, judgement),
        "marks": f"marks: {rate}" if rate else "",
        "notes": list(notes),
    }


def _as_sentence(explanation: ExplanationInfo) -> str | None:
    cure = explanation.cure
    if cure is None:
        return None
    end = ":" if explanation.command else "."
    return cure[0].upper() + cure[1:] + end


def _headline(
    brief: StreamBrief, explanation: ExplanationInfo, judgement: Judgement, *, clock_ms: int
) -> list[Part]:
    since: Part = {"since": judgement.since_ms}
    if judgement.state == "held":
        first = explanation.holders[0].writer if explanation.holders else "?"
        held: list[Part] = [
            {"text": "Held by "},
            {"text": first, "name": True, "tone": judgement.tone},
            *_others(explanation),
            {"text": " for "},
            since,
        ]
        left_ms = explanation.next_expiry_ms
        if left_ms is not None:
            held += [
                {"text": " dropped in ", "tone": "aside"},
                {"until": clock_ms + left_ms, "tone": "aside"},
            ]
        elif brief.explanation is not None:
            held.append({"text": f" {until_of(brief, brief.explanation)}", "tone": "aside"})
        return held
    states = explanation.states
    texts = {
        "few": "Too few writers for a first mark",
        "odd": "The times look odd",
        "nobody": "No live writer",
        "late": "Late",
        "catching": "Catching up",
        "moving": "Moving",
        "unused": "No writer yet",
        "ended": "Ended: nothing follows",
    }
    if judgement.state in {"quiet", "silent"}:
        return [{"text": f"{judgement.label.capitalize()} for "}, since]
    if judgement.state == "nobody":
        gone = states.get("expired", 0)
        why = f": {grouped(gone)} expired" if gone else ": all writers left"
        return [{"text": texts["nobody"] + why}]
    return [{"text": texts[judgement.state]}]


def _others(explanation: ExplanationInfo) -> list[Part]:
    more = explanation.holder_count - 1
    return [{"text": f" and {plural(more, 'other')}"}] if more > 0 else []


def _sentence(
    explanation: ExplanationInfo, judgement: Judgement, times: Times, *, clock_ms: int
) -> list[Part]:
    """Describe what the headline leaves out; the card shows no span of time twice."""
    first = explanation.holders[0] if explanation.holders else None
    if judgement.state == "quiet":
        return [
            {"text": "No writer is ahead: it rises once all live writers note a later time."}
        ]
    if judgement.state == "held" and first is not None:
        who = "It" if explanation.holder_count == 1 else "The first of them"
        return [{"text": who}, *_stand_of(first, times, clock_ms), *_waiting(explanation)]
    if judgement.state == "silent":
        silent = "No writer has reported since then, so no writer expires. "
        return [{"text": silent}, *_last(explanation, first, times)]
    if judgement.state not in _MOVING:
        return [{"text": explanation.sentence}]
    holds = is_holding(explanation.reason, explanation)
    return _last(explanation, first, times) if holds else []


def _last(explanation: ExplanationInfo, first: WriterInfo | None, times: Times) -> list[Part]:
    if first is None or not first.behind_ms:
        return []
    others = _others(explanation)
    is_near = times.dated and first.behind_ms < 1_000
    span = "less than 1s" if is_near else times.distance(first.behind_ms)
    how = f"{' are' if others else ' is'} last, {span} of event time"
    name: Part = {"text": first.writer, "name": True}
    return [name, *others, {"text": f"{how} behind the first."}]


def _stand_of(first: WriterInfo, times: Times, clock_ms: int) -> list[Part]:
    if first.behind_ms is None:
        stands = " has noted no time yet"
    else:
        stands = f" is {times.distance(first.behind_ms)} of event time behind the first"
    if first.silent_ms is None:
        return [{"text": f"{stands}."}]
    spoke: Part = {"since": clock_ms - first.silent_ms}
    return [{"text": f"{stands}, and reported "}, spoke, {"text": " ago."}]


def _waiting(explanation: ExplanationInfo) -> list[Part]:
    """Name some of those that are ahead."""
    names = explanation.waiting[:_NAMES]
    more = explanation.waiting_count - len(names)
    if not names:
        return [{"text": " No writer waits for it yet."}]
    parts: list[Part] = [{"text": " "}]
    for place, name in enumerate(names):
        between = "" if not place else " and " if not more and name == names[-1] else ", "
        parts += [{"text": between}, {"text": name, "name": True}]
    others = f" and {grouped(more)} more" if more > 0 else ""
    waits = "waits" if explanation.waiting_count == 1 else "wait"
    return [*parts, {"text": f"{others} {waits}."}]


def notes_of(info: StreamInfo, open_transactions: Sequence[TransactionInfo]) -> list[str]:
    """Describe what else there is to know: of which kind it is, what is open, what is gone."""
    growing = sum(one.sealed_length is None for one in info.topology.segments)
    notes = []
    if (table := table_text(info.config.table, info.version)) is not None:
        notes.append(table)
    elif info.config.log == "external":
        notes.append(f"external log, {plural(len(info.topology.segments), 'partition')}")
    else:
        notes.append(f"{plural(growing, 'open segment')} of {len(info.topology.segments)}")
    events = events_of(info)
    if events is not None:
        notes.append(plural(events, "event", show=rounded))
        gone = sum(_gone_before(info).values())
        if gone:
            notes.append(f"{rounded(gone)} truncated")
    if info.config.max_future_skew_ms is None:
        notes.append("logical time")
    if open_transactions:
        staged = sum(one.events for one in open_transactions)
        what = plural(len(open_transactions), "open transaction")
        notes.append(f"{what} with {plural(staged, 'event')}")
    if info.scaling is not None and info.scaling.hot:
        notes.append(f"hot segment {', '.join(map(str, info.scaling.hot))}")
    return notes
