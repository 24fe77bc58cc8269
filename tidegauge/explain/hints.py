"""Hints: what is probably wrong although nothing was refused."""

from tidegauge.event_time import describe_span, looks_like_seconds
from tidegauge.explain.situation import Situation

_SHOWN_MS = 600_000
"""How long an odd event is shown; one that follows is shown as long again."""


def hint_of(situation: Situation) -> str | None:
    """Return what looks wrong; None if nothing does."""
    if situation.newest is not None and situation.newest.final:
        return None
    hints = [
        _unplaced(situation),
        _seconds(situation),
        _ahead(situation),
        _odd_event(situation),
        _hot(situation),
    ]
    return " ".join(hint for hint in hints if hint is not None) or None


def doubt_of(time: int, wall_ms: int, max_future_skew_ms: int | None) -> str | None:
    """Return what looks wrong with an event time that readers can hold; None if nothing does."""
    if max_future_skew_ms is None:
        return None
    if looks_like_seconds(time):
        return (
            f"event time {time} lies in early 1970: are these seconds? Times are milliseconds"
        )
    ahead_ms = time - wall_ms
    if ahead_ms <= max_future_skew_ms:
        return None
    return (
        f"event time {time} is {describe_span(ahead_ms)} ahead of this server's clock: is that "
        "right? If you need such times, raise max_future_skew_ms"
    )


def _unplaced(situation: Situation) -> str | None:
    if not situation.unplaced:
        return None
    return (
        "No report has named an offset, so the marks cover no event of the external log: "
        "send the next offset of each partition as the position."
    )


def _odd_event(situation: Situation) -> str | None:
    event = situation.odd_event
    if event is None or situation.wall_ms - event.seen_ms > _SHOWN_MS:
        return None
    doubt = doubt_of(event.time, event.seen_ms, situation.settings.max_future_skew_ms)
    who = "Somebody" if event.writer is None else f"Writer {event.writer!r}"
    return None if doubt is None else f"{who} appended an odd time: {doubt}."


def _hot(situation: Situation) -> str | None:
    if not situation.hot:
        return None
    segments = ", ".join(map(str, sorted(situation.hot)))
    return (
        f"Hot key in segment {segments}: a split left the load in one part, and is not repeated for "
        "now; if the events of that key need no common order, write them under several keys."
    )


def _seconds(situation: Situation) -> str | None:
    if situation.settings.max_future_skew_ms is None:
        return None
    for status in (*situation.holders, situation.leader):
        if status is not None and status.time is not None and looks_like_seconds(status.time):
            return (
                f"Writer {status.writer!r} noted {status.time}, which lies in early 1970: are these "
                "seconds? Times are milliseconds."
            )
    newest = situation.newest
    if newest is not None and looks_like_seconds(newest.lower):
        return (
            f"The watermark {newest.lower} lies in early 1970: were these seconds? Times are "
            "milliseconds."
        )
    return None


def _ahead(situation: Situation) -> str | None:
    newest, leader = situation.newest, situation.leader
    if newest is not None and situation.is_ahead_of_clock(newest.lower):
        ahead = describe_span(newest.lower - situation.wall_ms)
        return (
            f"The watermark is {ahead} ahead of this server's clock: is a writer's clock wrong? "
            "It cannot go back, so older events are late until the clock has passed it."
        )
    if leader is None:
        return None
    doubts = []
    if leader is situation.doubtful_leader and leader.time is not None:
        ahead = describe_span(leader.time - situation.wall_ms)
        doubts.append(f"noted a time {ahead} ahead of this server's clock")
    if situation.lead_ms is not None:
        doubts.append(f"is {describe_span(situation.lead_ms)} ahead of all others")
    if not doubts:
        return None
    return f"Writer {leader.writer!r} {', and '.join(doubts)}: is its clock right?"
