"""The sentence of an explanation: for a person at three in the morning."""

from collections.abc import Sequence

from tidegauge.event_time import describe_event_time, describe_span
from tidegauge.explain.situation import Situation, WriterStatus

_NAMES = 3
_WORTH_SAYING_MS = 1_000


def sentence_of(situation: Situation, reason: str) -> str:
    """Say in one sentence where the watermark stands, why, and what to do."""
    if reason == "sealed":
        return "The stream is sealed: its watermark is the end of time, and nothing follows."
    facts = f"{_standing(situation)}: {_facts(situation, reason)}"
    cure = cure_of(situation, reason)
    return f"{facts}." if cure is None else f"{facts}; {cure}."


def cure_of(situation: Situation, reason: str) -> str | None:
    """Say what to do; None if there is nothing."""
    if reason == "no_writers":
        return "register a writer, or note a time"
    if reason == "min_writers":
        return (
            "start the others, or ask for fewer: tidegauge configure "
            f"{situation.stream} --min-writers {max(situation.reporters, 1)}"
        )
    if reason == "nobody_live":
        return "start a writer"
    if reason in {"joining", "holding"}:
        return _cure_of_holding(situation, situation.holders[0])
    return None


def _standing(situation: Situation) -> str:
    newest, stood_ms = situation.newest, situation.stood_ms
    if newest is None:
        return "There is no mark yet"
    at = describe_event_time(newest.lower)
    if stood_ms is None or stood_ms < _WORTH_SAYING_MS:
        return f"The watermark stands at {at}"
    return f"The watermark has stood at {at} for {describe_span(stood_ms)}"


def _facts(situation: Situation, reason: str) -> str:
    if reason == "no_writers":
        return "nobody writes"
    if reason == "min_writers":
        return _too_few(situation)
    if reason == "pass_due":
        interval = describe_span(situation.settings.mark_interval_ms)
        return f"everybody has noted a later time, and a pass is due within {interval}"
    if reason == "caught_up":
        return _caught_up(situation)
    if reason == "nobody_live":
        states = situation.states
        return f"no writer is live ({states['left']} left, {states['expired']} expired)"
    return f"{_held(situation)}; {_until(situation)}"


def _too_few(situation: Situation) -> str:
    wanted, joining = situation.settings.min_writers, situation.states["joining"]
    registered = f", and {joining} registered without reporting" if joining else ""
    return f"{situation.reporters} of min_writers={wanted} writers have reported{registered}"


def _caught_up(situation: Situation) -> str:
    heard, expired = situation.heard, situation.states["expired"]
    facts = ["nobody is ahead"]
    if heard is not None and (heard.silent_ms or 0) >= _WORTH_SAYING_MS:
        facts.append(f"{heard.writer!r} spoke last, {describe_span(heard.silent_ms or 0)} ago")
    if expired:
        who = "1 writer is" if expired == 1 else f"{expired} writers are"
        facts.append(f"{who} expired and not waited for")
    who = f"all {situation.live} live writers note"
    if situation.live == 1 and situation.holders:
        who = f"{situation.holders[0].writer!r} notes"
    return f"{', '.join(facts)}; it rises once {who} a later time"


def _held(situation: Situation) -> str:
    waiting, count = situation.waiting_count, _held_by(situation)
    some = [f"{one.writer!r} ({_how(one)})" for one in situation.holders[:1]]
    some += [repr(one.writer) for one in situation.holders[1:count]]
    what = "it" if situation.newest is not None else "the first one back"
    who = f"writer {some[0]} holds" if count == 1 else f"writers {_listed(some, count)} hold"
    others = [repr(name) for name in situation.waiting]
    waits = f"{_listed(others, waiting)} wait{'s' if waiting == 1 else ''}"
    return f"{who} {what} while {waits if waiting else 'nobody waits'}"


def _held_by(situation: Situation) -> int:
    """While nobody waits, only those that have said nothing matter."""
    return situation.holder_count if situation.waiting_count else situation.states["joining"]


def _how(one: WriterStatus) -> str:
    silent_ms = one.silent_ms or 0
    long = silent_ms >= _WORTH_SAYING_MS
    if one.time is None:
        since = f"registered {describe_span(silent_ms)} ago, " if long else ""
        return f"{since}no time noted yet"
    silent = f", silent for {describe_span(silent_ms)}" if long else ""
    return f"{describe_span(one.behind_ms or 0)} of event time behind{silent}"


def _until(situation: Situation) -> str:
    timeout_ms, left_ms = situation.settings.aggregation_timeout_ms, situation.next_expiry_ms
    who = "it is" if _held_by(situation) == 1 else "the first is"
    if timeout_ms is None:
        return f"{who} never dropped (aggregation_timeout_ms is null)"
    if situation.waiting_count == 0:
        return f"{who} dropped {describe_span(timeout_ms)} after somebody begins to wait"
    left_ms = timeout_ms if left_ms is None else left_ms
    if situation.interval_left_ms > left_ms:
        pass_in = describe_span(situation.interval_left_ms)
        return f"{who} dropped within {pass_in}, when mark_interval_ms is over"
    return f"{who} dropped in {describe_span(left_ms)}"


def _cure_of_holding(situation: Situation, first: WriterStatus) -> str:
    leader = situation.doubtful_leader
    if leader is not None:
        return (
            f"first look at {leader.writer!r}, whose times are in the future: if its clock is "
            f"wrong, stop it, and: tidegauge expire {situation.stream} {leader.writer}"
        )
    what = "let it note a time" if first.time is None else "let it note a later time"
    if not situation.waiting_count:
        return what
    return (
        f"{what} or leave, or drop it (what it writes below is late then): "
        f"tidegauge expire {situation.stream} {first.writer}"
    )


def _listed(some: Sequence[str], count: int) -> str:
    shown = some[:_NAMES]
    if count > len(shown):
        return f"{', '.join(shown)} and {count - len(shown)} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)
