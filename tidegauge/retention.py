"""Which stored marks may go: old ones are thinned by event time, older ones removed.

Whatever goes, every promise holds: a mark says nothing that a later one contradicts, so that a
lookup among those left stops later, starts earlier or knows less, and is never wrong.
"""

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol

from tidegauge.event_time import parse_span
from tidegauge.lattice import covers
from tidegauge.topology import Position, Topology


class Tier(NamedTuple):
    """How few marks of an age are kept.

    Attributes
    ----------
    age_ms
        From when on, in wall clock since a mark was made.
    step_ms
        One mark in so much event time is kept, the first; None keeps none.
    """

    age_ms: int
    step_ms: int | None


class StoredMark(Protocol):
    """What decides whether a mark may go; its cut is asked for of few."""

    @property
    def revision(self) -> int:
        """Of the mark."""

    @property
    def lower(self) -> int:
        """Its watermark, ms of event time."""

    @property
    def created_ms(self) -> int:
        """Wall clock at which it was made."""

    def cut(self) -> Position:
        """Its cut."""


def parse_thinning(text: str) -> tuple[Tier, ...]:
    """Read tiers, written ``age:step,…``, in ms or with a unit; the empty text means never.

    Raises
    ------
    ValueError
        If it is written otherwise, ages or steps do not rise, or a step is no multiple of the
        one before it: what is thinned twice would depend on when.

    Examples
    --------
    >>> parse_thinning("3600000:1000,1d:1m")
    (Tier(age_ms=3600000, step_ms=1000), Tier(age_ms=86400000, step_ms=60000))
    """
    parts = [part.split(":") for part in text.split(",") if part.strip()]
    try:
        pairs = [[parse_span(span.strip(), bare_ms=1) for span in part] for part in parts]
    except ValueError:
        pairs = [[]]
    if not all(len(pair) == 2 and all(pair) for pair in pairs):
        msg = f"{text!r} is not AGE:STEP,… of lengths of time above 0, such as 1h:1s,1d:1m"
        raise ValueError(msg)
    tiers = tuple(Tier(age, step) for age, step in pairs)
    for before, after in pairwise(tiers):
        if after.age_ms <= before.age_ms or (after.step_ms or 0) % (before.step_ms or 1):
            msg = f"{text!r}: ages must rise, and each step be a multiple of the one before it"
            raise ValueError(msg)
    return tiers


def tiers(thinning: Iterable[Tier], retention_ms: int | None) -> list[Tier]:
    """List what becomes of a stream's marks, the oldest first."""
    wanted = [tier for tier in thinning if retention_ms is None or tier.age_ms < retention_ms]
    if retention_ms is not None:
        wanted.append(Tier(retention_ms, None))
    return sorted(wanted, reverse=True, key=lambda tier: tier.age_ms)


def count_old(marks: Sequence[StoredMark], made_by_ms: int) -> int:
    """Count the marks, in order of revision, up to the last that was made by some time.

    What comes before an old mark is older still, whatever a wall clock that was set says.
    """
    old = (at for at, mark in enumerate(marks, 1) if mark.created_ms <= made_by_ms)
    return max(old, default=0)


def surplus(
    marks: Iterable[StoredMark], step_ms: int | None, former_lower: int | None = None
) -> list[int]:
    """List the revisions that may go, of marks in order; ``former_lower`` is of one before them.

    The first mark at or above each multiple of the step stays: a reader that stops, or ends a
    batch, at the first mark from such a time on does so at the same cut as before.
    """
    if step_ms is None:
        return [mark.revision for mark in marks]
    gone = []
    former = None if former_lower is None else former_lower // step_ms
    for mark in marks:
        step = mark.lower // step_ms
        if step == former:
            gone.append(mark.revision)
        former = step
    return gone


def newest_at(
    topology: Topology, marks: Sequence[StoredMark], position: Position
) -> int | None:
    """Return the revision of the newest mark that a position covers, if it is one of some marks.

    A reader at the position takes its time from that mark. The marks are adjacent ones, in order of
    revision, and the one that follows them.
    """
    if covers(topology, position, marks[-1].cut()):
        return None
    passed = bisect_left(
        marks, True, key=lambda mark: not covers(topology, position, mark.cut())
    )
    return marks[passed - 1].revision if passed else None
