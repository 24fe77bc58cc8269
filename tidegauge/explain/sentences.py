"""The sentence of an explanation: for a person at three in the morning."""

from collections.abc import Sequence
from typing import NamedTuple

from tidegauge.aggregation.settings import StreamSettings
from tidegauge.event_time import describe_event_time, describe_span, is_date
from tidegauge.explain.situation import MOST_COUNTED, Situation, WriterStatus
from tidegauge.explain.states import State
from tidegauge.states import Clock, Reason

_NAMES = 3
_WORTH_SAYING_MS = 1_000
_GO_ON: dict[Clock, tuple[str, str, str]] = {
    "silence": ("reported", "reports", "reporting"),
    "standing_still": ("progressed", "progresses", "progressing"),
}


class Cure(NamedTuple):
    """What to do, in words, and the command line that does it, if one does."""

    words: str
    command: str | None = None


_CURES: dict[State, Cure] = {
    "unused": Cure("register a writer, or note a time"),
    "nobody": Cure("start a writer"),
    "silent": Cure("if there should be events, look at the producers"),
}


def in_full(sentence: str, cure: str | None, command: str | None) -> str:
    """Return all that an explanation says, as one line.

    Examples
    --------
    >>> in_full("There is no mark yet: the stream has no writer.", "register a writer", None)
    'There is no mark yet: the stream has no writer; register a writer.'
    """
    if cure is None:
        return sentence
    said = f"{sentence.removesuffix('.')}; {cure}"
    return f"{said}." if command is None else f"{said}: {command}"


def sentence_of(situation: Situation, reason: Reason, state: State, *, hint: str | None) -> str:
    """Return in words where the watermark stands, and why; what looks wrong comes first."""
    if reason == "sealed":
        return "The stream is sealed: its watermark is the end of time, and nothing follows."
    facts = f"{_standing(situation)}: {_facts(situation, reason, state)}"
    if situation.returning:
        facts = f"{facts}; {_returning(situation)}"
    if situation.ended:
        facts = f"{facts}; {_ending(situation)}"
    if hint is not None:
        return f"{hint} {facts}."
    if state == "moving":
        return f"Nothing to do: {facts[0].lower()}{facts[1:]}."
    return f"{facts}."


def cure_of(situation: Situation, reason: Reason, state: State) -> Cure | None:
    """Return what to do; None if there is nothing."""
    if reason == "min_writers":
        fewer = f"--min-writers {max(situation.reporters, 1)}"
        return Cure(
            "start the other writers, or require fewer",
            f"tidegauge configure {situation.stream} {fewer}",
        )
    leader, holds = situation.doubtful_leader, reason in {"joining", "holding"}
    if holds and leader is not None:
        return _cure_of_doubt(situation, leader)
    if holds and state not in {"silent", "moving"}:
        return _cure_of_holding(situation, situation.holders[0])
    if state == "nobody" and situation.unended:
        first = situation.unended[0]
        return Cure(
            f"start {first!r}, or end it if it will not run again",
            f"tidegauge leave {situation.stream} {first} --ended",
        )
    if state == "nobody" and situation.ended:
        return Cure(
            "start the other writers, or require fewer",
            f"tidegauge configure {situation.stream} --min-writers {situation.ended}",
        )
    return _CURES.get(state)


def _standing(situation: Situation) -> str:
    newest, stood_ms = situation.newest, situation.stood_ms
    if newest is None:
        return "There is no mark yet"
    at = describe_event_time(newest.lower)
    if stood_ms is None or stood_ms < _WORTH_SAYING_MS:
        return f"The watermark stands at {at}"
    return f"The watermark has stood at {at} for {describe_span(stood_ms)}"


def _facts(  # noqa: PLR0911 (one for each reason)
    situation: Situation, reason: Reason, state: State
) -> str:
    if state == "silent":
        since = describe_span(situation.silent_ms or 0)
        silent = f"no writer has reported for {since}, so no writer expires"
        return f"{silent}; {_last(situation)}"
    if state == "moving" and reason in {"holding", "joining"}:
        return _last(situation)
    if reason == "no_writers":
        return "the stream has no writer"
    if reason == "min_writers":
        return _too_few(situation)
    if reason == "pass_due":
        interval = describe_span(situation.settings.mark_interval_ms)
        return (
            f"all writers have noted a later time, and the next pass is due within {interval}"
        )
    if reason == "caught_up":
        return _caught_up(situation)
    if reason == "nobody_live":
        left, expired = situation.states["left"], situation.states["expired"]
        names = f": {_names_of_expired(situation)}" if expired else ""
        return f"no writer is live ({left} left, {expired} expired{names})"
    return f"{_held(situation)}; {_until(situation)}"


def _ending(situation: Situation) -> str:
    """Return what a stream waits for before it is sealed, some of whose writers have ended."""
    count = sum(situation.states.values()) - situation.ended
    if not count:
        wanted, have = situation.settings.min_writers, "has" if situation.ended == 1 else "have"
        return f"{situation.ended} of the {wanted} writers required by min_writers {have} ended"
    names = _listed([repr(name) for name in situation.unended], count)
    have = "have" if count > 1 else "has"
    others = "1 other has" if situation.ended == 1 else f"{situation.ended} others have"
    return f"the stream is sealed once {names} {have} ended, as {others}"


def _too_few(situation: Situation) -> str:
    wanted = situation.settings.min_writers
    registered = f", and {_registered(situation)}" if situation.states["joining"] else ""
    return f"{situation.reporters} of min_writers={wanted} writers have reported{registered}"


def _registered(situation: Situation) -> str:
    """Return the names of those that have not reported, where no clock runs."""
    names = [repr(status.writer) for status in situation.holders if status.state == "joining"]
    return f"{_listed(names, situation.states['joining'])} registered without reporting"


def _names_of_expired(situation: Situation) -> str:
    return _listed([repr(name) for name in situation.expired], situation.states["expired"])


def _caught_up(situation: Situation) -> str:
    heard, expired = situation.heard, situation.states["expired"]
    facts = ["no writer is ahead"]
    silent_ms = None if heard is None or heard.time is None else heard.silent_ms
    if heard is not None and silent_ms is not None and silent_ms >= _WORTH_SAYING_MS:
        facts.append(f"{heard.writer!r} reported last, {describe_span(silent_ms)} ago")
    if situation.states["joining"]:
        facts.append(_registered(situation))
    if expired:
        hold = "holds" if expired == 1 else "hold"
        facts.append(f"{_names_of_expired(situation)} expired and no longer {hold} it")
    who = f"all {situation.live} live writers note"
    if situation.live == 1 and situation.holders:
        who = f"{situation.holders[0].writer!r} notes"
    return f"{', '.join(facts)}; it advances once {who} a later time"


def _held(situation: Situation) -> str:
    waiting = situation.waiting_count
    holds = "holds" if _held_by(situation) == 1 else "hold"
    what = "it" if situation.newest is not None else "back the first mark"
    others = [repr(name) for name in situation.waiting]
    waits = f"{_listed(others, waiting)} wait{'s' if waiting == 1 else ''}"
    return (
        f"{_holders(situation)} {holds} {what} while {waits if waiting else 'no writer waits'}"
    )


def _last(situation: Situation) -> str:
    return f"{_holders(situation)} {'is' if _held_by(situation) == 1 else 'are'} last"


def _holders(situation: Situation) -> str:
    """Name who holds the watermark, or is last while it moves: the first of them in detail."""
    count = _held_by(situation)
    some = [
        f"{status.writer!r} ({_how(status, situation)})" for status in situation.holders[:1]
    ]
    for status in situation.holders[1:count]:
        said_nothing = status.state == "joining"
        how = "; ".join(filter(None, [_how(status, situation), _shows(status, situation)]))
        some.append(f"{status.writer!r} ({how})" if said_nothing else repr(status.writer))
    return f"writer {some[0]}" if count == 1 else f"writers {_listed(some, count)}"


def _held_by(situation: Situation) -> int:
    """Return how many hold the watermark: while nobody waits, only those that have not reported."""
    return situation.holder_count if situation.waiting_count else situation.states["joining"]


def _how(status: WriterStatus, situation: Situation) -> str:
    silent_ms = status.silent_ms or 0
    long = silent_ms >= _WORTH_SAYING_MS
    if status.time is None:
        since = f"registered {describe_span(silent_ms)} ago, " if long else ""
        if status.stand is None:
            return f"{since}no time noted yet"
        what = "starts at" if status.stand_by == "registered" else "was last at"
        return f"{since}no time noted yet, {what} {describe_event_time(status.stand)}"
    silent = f", silent for {describe_span(silent_ms)}" if long else ""
    return f"{_behind(status, situation)} of event time behind{silent}"


def _behind(status: WriterStatus, situation: Situation) -> str:
    """Return how far a writer is behind; where times are no dates, without a unit."""
    behind_ms = status.behind_ms or 0
    follows_clock = situation.settings.max_future_skew_ms is not None
    is_span = follows_clock or (status.time is not None and is_date(status.time))
    return describe_span(behind_ms) if is_span else str(behind_ms)


def _until(situation: Situation) -> str:
    settings, count = situation.settings, _held_by(situation)
    who = "it is" if count == 1 else "the first is"
    if settings.aggregation_timeout_ms is None and settings.hold_limit_ms is None:
        return f"{who} never dropped (aggregation_timeout_ms and hold_limit_ms are null)"
    if situation.waiting_count == 0:
        return f"{who} dropped {_allowed(situation)}, once another writer waits"
    first = situation.holders[0]
    if first.clock is None and first.silent_for_ms is not None:
        return "it reports, and holds without limit (hold_limit_ms is null)"
    if first.clock is None:
        return f"{who} dropped {_allowed(situation)}, from the next pass on"
    return _until_its_end(situation, who, first)


def _until_its_end(situation: Situation, who: str, first: WriterStatus) -> str:
    """Return when the clock that is nearer its end runs out, or why it is stopped."""
    kind = first.clock or "silence"
    shown_ms, most_ms = _clock_of(first, situation.settings)
    shows = f"{_shows(first, situation)}{_others_that_run_out(situation)}"
    left_ms = max(0, most_ms - shown_ms)
    if first.expires_in_ms == left_ms:
        return f"{who} dropped {_due(situation, left_ms)} ({shows})"
    gone_on, goes_on, going_on = _GO_ON[kind]
    stopped_ms = situation.stopped_ms[kind]
    if situation.all_others_left and (stopped_ms is not None or situation.holder_count == 1):
        return (
            "all others have left: while no other writer reports, no writer expires, and it "
            "holds until you seal the stream or expire it"
        )
    if stopped_ms is not None:
        since = f"no writer has {gone_on} for {describe_span(stopped_ms)}"
        return f"{since}: while no other writer {goes_on}, no writer expires"
    return f"{who} dropped in {describe_span(left_ms)} if others keep {going_on} ({shows})"


def _shows(status: WriterStatus, situation: Situation) -> str:
    """Return what the clock shows that is nearer its end; nothing if none runs."""
    if status.clock is None:
        return ""
    shown_ms, most_ms = _clock_of(status, situation.settings)
    shown, most = describe_span(shown_ms), describe_span(most_ms)
    if status.clock == "silence":
        return f"{shown} of the {most} of silence allowed have passed"
    return f"it has made no progress for {shown} of the {most} allowed"


def _others_that_run_out(situation: Situation) -> str:
    others = situation.run_out_with
    if not others:
        return ""
    least = "at least " if others + 1 == MOST_COUNTED else ""
    return f"; {least}{others} more expire{'s' if others == 1 else ''} with it"


def _clock_of(status: WriterStatus, settings: StreamSettings) -> tuple[int, int]:
    """Return what the clock shows that is nearer its end, and where it ends."""
    if status.clock == "silence":
        return status.silent_for_ms or 0, settings.aggregation_timeout_ms or 0
    return status.standing_for_ms or 0, settings.hold_limit_ms or 0


def _allowed(situation: Situation) -> str:
    settings = situation.settings
    allowed = (
        (settings.aggregation_timeout_ms, "of silence"),
        (settings.hold_limit_ms, "without progress"),
    )
    some = [f"{describe_span(most)} {what}" for most, what in allowed if most is not None]
    return f"after {' or '.join(some)}"


def _due(situation: Situation, left_ms: int) -> str:
    interval_ms = situation.interval_left_ms
    if interval_ms > left_ms:
        return f"within {describe_span(interval_ms)}, when mark_interval_ms has passed"
    return f"in {describe_span(left_ms)}"


def _returning(situation: Situation) -> str:
    status, more = situation.returning[0], situation.returning_count - 1
    others = f" (and {more} more)" if more else ""
    return f"{status.writer!r}{others} is returning, {_approach(status, situation)}"


def _approach(status: WriterStatus, situation: Situation) -> str:
    """Return why a writer that is out is not live yet, and when it will be."""
    settings = (situation.settings.aggregation_timeout_ms, situation.settings.hold_limit_ms)
    most_ms = min((most for most in settings if most is not None), default=None)
    at = "no time noted yet" if status.time is None else f"{_behind(status, situation)} behind"
    if not status.grace:
        least = describe_event_time(status.gone_watermark or 0)
        return f"{at}, without grace until it notes a time above {least}"
    if most_ms is None:
        return f"{at}: it is admitted above the watermark, or when it registers"
    pace, that = "its pace is not known yet", "the others would wait"
    if status.catch_up_ms is not None:
        pace = f"at its pace the others would wait {describe_span(status.catch_up_ms)}"
        that = "that is"
    most = describe_span(most_ms)
    return f"{at}: {pace}; it is admitted once {that} at most {most}, or when it registers"


def _cure_of_doubt(situation: Situation, leader: WriterStatus) -> Cure:
    return Cure(
        f"first check {leader.writer!r}, whose times are in the future: if its clock is wrong, "
        "stop it and expire it",
        f"tidegauge expire {situation.stream} {leader.writer}",
    )


def _cure_of_holding(situation: Situation, first: WriterStatus) -> Cure:
    what = "have it note a time" if first.time is None else "have it note a later time"
    if not situation.waiting_count:
        return Cure(what)
    return Cure(
        f"{what} or leave, {'seal the stream, or ' if situation.all_others_left else 'or '}"
        "expire it (its events below the watermark are then late)",
        f"tidegauge expire {situation.stream} {first.writer}",
    )


def _listed(some: Sequence[str], count: int) -> str:
    shown = some[:_NAMES]
    if count > len(shown):
        return f"{', '.join(shown)} and {count - len(shown)} more"
    return " and ".join(part for part in (", ".join(shown[:-1]), *shown[-1:]) if part)
