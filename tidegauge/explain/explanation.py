"""Explain: why the watermark is where it is, as data and in one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass

from tidegauge.explain.hints import hint_of
from tidegauge.explain.sentences import cure_of, in_full, sentence_of
from tidegauge.explain.situation import Situation, WriterStatus
from tidegauge.explain.states import HELD_AFTER_MS, State, is_silent, state_of
from tidegauge.states import Reason, WriterState


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why the watermark is where it is; the fields are those of the HTTP API."""

    reason: Reason
    sentence: str
    cure: str | None
    command: str | None
    hint: str | None
    stood_ms: int | None
    held_ms: int | None
    silent_ms: int | None
    states: Mapping[WriterState, int]
    holders: list[WriterStatus]
    holder_count: int
    waiting: list[str]
    waiting_count: int
    returning: list[WriterStatus]
    returning_count: int
    next_expiry_ms: int | None

    @property
    def in_full(self) -> str:
        """The sentence, with what to do."""
        return in_full(self.sentence, self.cure, self.command)


def explain(situation: Situation) -> Explanation:
    """Choose the reason and say it."""
    reason, hint = reason_of(situation), hint_of(situation)
    state = _state_of(situation, reason)
    cure = cure_of(situation, reason, state)
    return Explanation(
        reason=reason,
        sentence=sentence_of(situation, reason, state, hint=hint),
        cure=None if cure is None else cure.words,
        command=None if cure is None else cure.command,
        hint=hint,
        stood_ms=situation.stood_ms,
        held_ms=situation.held_ms,
        silent_ms=situation.silent_ms,
        states=situation.states,
        holders=situation.holders,
        holder_count=situation.holder_count,
        waiting=situation.waiting,
        waiting_count=situation.waiting_count,
        returning=situation.returning,
        returning_count=situation.returning_count,
        next_expiry_ms=situation.next_expiry_ms,
    )


def _state_of(situation: Situation, reason: Reason) -> State:
    """Return the state as one answer shows it, whatever looks odd; before the first mark nothing moves."""
    held_ms = situation.held_ms
    stands_ms = situation.stood_ms if held_ms is None else held_ms
    stands_long = situation.newest is None or (stands_ms or 0) > HELD_AFTER_MS
    silent = is_silent(situation)
    return state_of(reason, None, is_silent=silent, stands_long=stands_long)


def reason_of(situation: Situation) -> Reason:
    """Return the first thing that has to change before the watermark rises."""
    newest = situation.newest
    if newest is not None and newest.final:
        return "sealed"
    if not any(situation.states.values()):
        return "no_writers"
    if newest is None and situation.reporters < situation.settings.min_writers:
        return "min_writers"
    if situation.nowhere:
        return "joining"
    if situation.waiting_count:
        return "holding" if situation.holder_count else "pass_due"
    return "caught_up" if situation.live else "nobody_live"
