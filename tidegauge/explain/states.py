"""The states of a stream, trouble first: their names, how bad each is, and what it follows from."""

from typing import Literal, Protocol, TypeAlias, get_args

from tidegauge.states import Reason

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
    "late": "The watermark moves, but is more than 5 minutes behind the clock.",
    "silent": "No writer has reported for so long that the clocks stopped, so no writer expires.",
    "catching": "The watermark is late, and gains more than 1.2 s a second.",
    "moving": "The watermark moves.",
    "quiet": "No writer notes times, and all have caught up.",
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
RANKS: dict[State, int] = {state: rank for rank, state in enumerate(LABELS)}
"""The order in which people read of streams."""

_HOLDING = frozenset({"holding", "joining"})
"""The reasons for which somebody keeps the watermark where it is."""


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
