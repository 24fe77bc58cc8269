"""Explain: why the watermark is where it is, as data and in one sentence."""

from dataclasses import dataclass, fields

from tidegauge.explain.hints import hint_of
from tidegauge.explain.sentences import cure_of, in_full, sentence_of
from tidegauge.explain.situation import Situation
from tidegauge.explain.states import State, is_silent, state_of
from tidegauge.states import Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Situation):
    """Why the watermark is where it is: the situation, the reason in it, and what is said of both."""

    reason: Reason
    sentence: str
    cure: str | None
    command: str | None
    hint: str | None

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
        **{field.name: getattr(situation, field.name) for field in fields(situation)},
    )


def _state_of(situation: Situation, reason: Reason) -> State:
    """Return the state as one answer shows it, whatever looks odd; before the first mark nothing moves."""
    held_ms = situation.held_ms
    stands_ms = situation.stood_ms if held_ms is None else held_ms
    stands_long = situation.newest is None or (stands_ms or 0) > situation.patience_ms
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
