"""The state of a stream: whether it is in trouble, by which writer, and for how long.

It is decided here alone, and said in the same words and order by the command line, the page at ``/``
and the dashboard.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, get_args

from tidegauge.event_time import describe_span
from tidegauge.states import HELD_AFTER_MS, Reason, WriterState, patience_ms

State: TypeAlias = Literal[
    "held",
    "few",
    "odd",
    "nobody",
    "late",
    "silent",
    "catching",
    "moving",
    "quiet",
    "unused",
    "ended",
]
Tone: TypeAlias = Literal["red", "amber", "green", "blue", "grey"]

LABELS: dict[State, str] = {state: state for state in get_args(State)} | {
    "few": "too few writers",
    "odd": "odd times",
    "nobody": "no live writer",
    "catching": "catching up",
}
"""What people read, trouble first."""
MEANINGS: dict[State, str] = {
    "held": "A writer keeps the watermark where it is, for longer than usual.",
    "few": "Fewer than min_writers writers have noted a time.",
    "odd": "A hint: times in seconds, a clock in the future, or a hot key.",
    "nobody": "All writers left or expired.",
    "late": "The watermark moves, more than 5 minutes behind the clock.",
    "silent": "No writer has reported for so long that the clocks stopped, so no writer expires.",
    "catching": "Late, and it gains more than 1.2 s a second.",
    "moving": "The watermark moves.",
    "quiet": "No writer notes times, and all of them are caught up.",
    "unused": "No writer has ever registered or noted a time.",
    "ended": "The stream is sealed: nothing follows.",
}
"""What each state means, in a sentence."""
TONES: dict[State, Tone] = {
    **dict.fromkeys(("held", "few", "odd", "nobody", "late"), "amber"),
    **dict.fromkeys(("silent", "quiet", "unused", "ended"), "grey"),
    "catching": "blue",
    "moving": "green",
}
"""How bad each of them is; *held* may be worse."""
_TO_BLAME: Mapping[State, frozenset[WriterState]] = {
    "held": frozenset({"behind", "joining"}),
    "few": frozenset({"joining"}),
    "nobody": frozenset({"expired"}),
}
_RANKS: dict[State, int] = {state: rank for rank, state in enumerate(LABELS)}

MOVES: frozenset[State] = frozenset({"moving", "catching", "late"})
"""Those in which marks are made."""
_HOLDING = frozenset({"holding", "joining"})
"""The reasons for which somebody keeps the watermark where it is."""
_RED_AFTER_MS = 60_000
_LATE_AFTER_MS = 300_000
_CATCHING_UP = 1.2


class Waiting(Protocol):
    """Who waits for whom, and whether all of them are silent."""

    @property
    def silent_ms(self) -> int | None:
        """How long no writer has reported, once that stops the clocks."""

    @property
    def holder_count(self) -> int:
        """How many hold the watermark."""

    @property
    def waiting_count(self) -> int:
        """How many are ahead and wait."""


class Explained(Waiting, Protocol):
    """Why a watermark is where it is, in short."""

    @property
    def reason(self) -> Reason:
        """One word for it."""

    @property
    def hint(self) -> str | None:
        """What looks wrong."""

    @property
    def holder(self) -> str | None:
        """The first writer that holds it."""

    @property
    def held_ms(self) -> int | None:
        """How long somebody has waited, but for silence; None if nobody waits."""


class Stream(Protocol):
    """What the state of a stream depends on; the entry of a list has it."""

    @property
    def watermark(self) -> int | None:
        """`lower` of the newest mark."""

    @property
    def final(self) -> bool:
        """Whether it is sealed."""

    @property
    def created_ms(self) -> int:
        """Wall clock of its creation."""

    @property
    def revision(self) -> int:
        """Of the newest mark; 0 before the first."""

    @property
    def marked_ms(self) -> int | None:
        """Wall clock of the newest mark."""

    @property
    def follows_clock(self) -> bool:
        """Whether its times are ms of wall clock."""

    @property
    def explanation(self) -> Explained | None:
        """Why its watermark stands; None in a list without explanations."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a watermark has moved lately, as far as somebody watched it.

    Attributes
    ----------
    distance_ms
        Mean wall clock between two marks, while it moved; None if it is not known.
    gain
        Event time gained in one unit of wall clock; None if it is not known.
    marks_per_s
        Marks a second.
    """

    distance_ms: float | None = None
    gain: float | None = None
    marks_per_s: float = 0.0


class Judged(Protocol):
    """A state that was decided, and since when."""

    @property
    def state(self) -> State:
        """What it is."""

    @property
    def label(self) -> str:
        """What people read."""

    @property
    def since_ms(self) -> int | None:
        """Wall clock since when the watermark stands, where that matters."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The state of a stream.

    Attributes
    ----------
    state, tone
        What it is, and how bad that is.
    since_ms
        Wall clock since when its watermark stands, where that matters.
    """

    state: State
    tone: Tone
    since_ms: int | None = None

    @property
    def label(self) -> str:
        """What people read."""
        return LABELS[self.state]

    @property
    def is_held(self) -> bool:
        """Whether somebody keeps the watermark where it is, for too long."""
        return self.state == "held"

    def tone_of(self, writer: WriterState) -> Tone:
        """Return the tone of its writers in some state: that of trouble only for those that cause it."""
        if writer in _TO_BLAME.get(self.state, ()):
            return self.tone
        return "green" if writer == "active" else "grey"


UNWATCHED = Pace()
"""Of a stream that was read once."""


def judgement_of(
    stream: Stream,
    pace: Pace = UNWATCHED,
    *,
    now_ms: int,
    held_after_ms: int = HELD_AFTER_MS,
) -> Judgement:
    """Decide the state of a stream.

    Somebody is always last, so that a live stream always has a holder: it is held only once it
    stands for longer than `held_after_ms`, and than four times its own mean distance of marks.

    Parameters
    ----------
    now_ms
        The service's clock when it explained the stream.
    """
    since_ms, explanation = _since(stream, now_ms), stream.explanation
    most_ms = max(held_after_ms, patience_ms(pace.distance_ms))
    if stream.final:
        return Judgement("ended", TONES["ended"])
    state: State = "moving"
    if explanation is not None:
        state = state_of(
            explanation.reason,
            explanation.hint,
            is_silent=is_silent(explanation),
            stands_long=now_ms - since_ms > most_ms,
        )
    if state == "held":
        long = now_ms - since_ms > _RED_AFTER_MS or stream.revision == 0
        return Judgement(state, "red" if long else "amber", since_ms)
    if explanation is not None and state == "silent":
        return Judgement(state, TONES[state], now_ms - (explanation.silent_ms or 0))
    if state == "moving":
        state = _moving(stream, pace, now_ms)
    stands = state in {"nobody", "few", "quiet"}
    return Judgement(state, TONES[state], since_ms if stands else None)


def state_of(  # noqa: PLR0911 (one for each state)
    reason: Reason, hint: str | None, *, is_silent: bool, stands_long: bool
) -> State:
    """Decide the state of a stream from why its watermark is where it is; *moving* is the last.

    Parameters
    ----------
    stands_long
        Whether it stands, or somebody waits, for longer than usual.
    """
    if reason == "sealed":
        return "ended"
    if reason == "no_writers":
        return "unused"
    if reason == "min_writers":
        return "few"
    if reason in _HOLDING and stands_long and not is_silent:
        return "held"
    if hint is not None:
        return "odd"
    if reason == "nobody_live":
        return "nobody"
    if is_silent:
        return "silent"
    if reason == "caught_up" and stands_long:
        return "quiet"
    return "moving"


def is_silent(waiting: Waiting) -> bool:
    """Return whether all that wait, and all that they wait for, are live and silent."""
    waits = waiting.waiting_count > 0 and waiting.holder_count > 0
    return waits and waiting.silent_ms is not None


def is_holding(reason: Reason, waiting: Waiting) -> bool:
    """Return whether somebody keeps the watermark where it is, for however short a time."""
    return reason in _HOLDING and not is_silent(waiting)


def trouble_first(judgements: Mapping[str, Judged]) -> list[str]:
    """Return the order of streams: trouble first, then those that stand for the longest, then by name."""
    return sorted(judgements, key=lambda name: rank_of(judgements[name], name))


def rank_of(judged: Judged, name: str) -> tuple[int, int, str]:
    """Return the order of a stream among others; see `trouble_first`."""
    stands = judged.since_ms if judged.since_ms is not None else 2**63
    return _RANKS[judged.state], stands, name


def describe_state(stream: Stream, judgement: Judged, *, now_ms: int) -> str:
    """Return the state of a stream in a line, such as ``held by gateway-7 and 2 more for 53s``."""
    words = judgement.label
    explanation = stream.explanation
    is_held = judgement.state == "held"
    if is_held and explanation is not None and explanation.holder is not None:
        more = explanation.holder_count - 1
        words += f" by {explanation.holder}" + (f" and {more} more" if more else "")
    if judgement.since_ms is not None and judgement.since_ms <= now_ms:
        words += f" for {describe_span(now_ms - judgement.since_ms)}"
    is_odd = is_held and explanation is not None and explanation.hint is not None
    return f"{words}, {LABELS['odd']}" if is_odd else words


def _moving(stream: Stream, pace: Pace, now_ms: int) -> State:
    """Return how it moves; a stream that was made a moment ago has had no time to be late."""
    watermark = stream.watermark
    if not stream.follows_clock or watermark is None:
        return "moving"
    if now_ms - max(watermark, stream.created_ms) <= _LATE_AFTER_MS:
        return "moving"
    return "catching" if (pace.gain or 0.0) > _CATCHING_UP else "late"


def _since(stream: Stream, now_ms: int) -> int:
    """Return since when the watermark stands, or somebody waits, if that began later."""
    stands_ms = stream.created_ms if stream.marked_ms is None else stream.marked_ms
    held_ms = None if stream.explanation is None else stream.explanation.held_ms
    return stands_ms if held_ms is None else max(stands_ms, now_ms - held_ms)
