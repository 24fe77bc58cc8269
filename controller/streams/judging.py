"""The state of a stream: whether it is in trouble, how bad that is, and since when; decided here alone."""

from controller.streams.lifecycle import describe_briefly
from controller.streams.stream import StreamState
from tidegauge.aggregation.changes import Paced
from tidegauge.explain.explanation import reason_of
from tidegauge.explain.hints import hint_of
from tidegauge.explain.states import LABELS, TONES, State, is_silent, state_of
from tidegauge.states import patience_ms
from tidegauge.wire.streams import BriefExplanation, JudgedState, StreamBrief

_MOVES: frozenset[State] = frozenset({"moving", "catching", "late"})
_STANDS: frozenset[State] = frozenset({"held", "nobody", "few", "quiet"})
_RED_AFTER_MS = 60_000
_LATE_AFTER_MS = 300_000
_CATCHING_UP = 1.2


def explain_briefly(state: StreamState) -> BriefExplanation:
    """Explain in short why the watermark is where it is, between two batches."""
    seen = state.aggregator.inspect(state.now())
    situation = seen.situation(
        hot=state.load.hot_until_ms, odd_event=state.odd_event, in_short=True
    )
    holders = situation.holders
    return BriefExplanation(
        reason=reason_of(situation),
        stood_ms=situation.stood_ms,
        held_ms=situation.held_ms,
        silent_ms=situation.silent_ms,
        states=dict(situation.states),
        holder=holders[0].writer if holders else None,
        holder_count=situation.holder_count,
        waiting_count=situation.waiting_count,
        next_expiry_ms=situation.next_expiry_ms,
        hint=hint_of(situation),
    )


def judge(state: StreamState) -> StreamBrief:
    """Describe a stream, explain it in short, and say its state by how it has moved lately."""
    stream, explanation = describe_briefly(state), explain_briefly(state)
    paced, now_ms = state.aggregator.paced, state.now().wall_ms
    judged = judged_of(stream, explanation, paced, now_ms=now_ms)
    return stream.model_copy(update={"explanation": explanation, "judged": judged})


def judged_of(
    stream: StreamBrief, explanation: BriefExplanation, paced: Paced, *, now_ms: int
) -> JudgedState:
    """Decide the state of a stream, by the service's clock when it was explained.

    Somebody is always last, so that a live stream always has a holder: it is held only once it
    stands for longer than 10 s, and than four times its own mean distance of marks.
    """
    since_ms = _since(stream, explanation, now_ms)
    state = state_of(
        explanation.reason,
        explanation.hint,
        is_silent=is_silent(explanation),
        stands_long=now_ms - since_ms > patience_ms(paced.mean_ms),
    )
    if state == "moving":
        state = _moving(stream, paced, now_ms)
    is_long = now_ms - since_ms > _RED_AFTER_MS or stream.revision == 0
    stood_ms = since_ms if state in _STANDS else None
    if state == "silent":
        stood_ms = now_ms - (explanation.silent_ms or 0)
    return JudgedState(
        state=state,
        label=LABELS[state],
        tone="red" if state == "held" and is_long else TONES[state],
        since_ms=stood_ms,
        marks_per_s=_marks_per_s(paced) if state in _MOVES else 0.0,
    )


def _moving(stream: StreamBrief, paced: Paced, now_ms: int) -> State:
    """Return how it moves; a stream that was made a moment ago has had no time to be late."""
    watermark = stream.watermark
    if not stream.follows_clock or watermark is None:
        return "moving"
    if now_ms - max(watermark, stream.created_ms) <= _LATE_AFTER_MS:
        return "moving"
    return "catching" if (paced.gain or 0.0) > _CATCHING_UP else "late"


def _since(stream: StreamBrief, explanation: BriefExplanation, now_ms: int) -> int:
    """Return since when the watermark stands, or somebody waits, if that began later."""
    stands_ms = stream.created_ms if stream.marked_ms is None else stream.marked_ms
    held_ms = explanation.held_ms
    return stands_ms if held_ms is None else max(stands_ms, now_ms - held_ms)


def _marks_per_s(paced: Paced) -> float:
    return 0.0 if paced.mean_ms is None else 1_000 * paced.marks / max(1.0, paced.mean_ms)
