"""How long one source may hold all others: the service's hold limit, for guesses. Pure.

The service cannot bound it: each writer of an observer notes the least guess of all, so that
nobody is ahead of anybody. Sources are compared by how old their events are when they are stored:
so it does not matter who is silent, nor which partitions the observer reads first, unless the log was
loaded at once.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from tidegauge.aggregation.pace import pace_suffices
from tidegauge.aggregation.passing_time import PassingTime


class Moment(NamedTuple):
    """What the clocks of a source's partition show at a look.

    Attributes
    ----------
    clock_ms
        The newest moment known of: of a record, or of a look at the end.
    passed_ms
        Of the time that passes only while others go on.
    """

    clock_ms: int
    passed_ms: int


@dataclass(slots=True)
class PartitionTime:
    """The clocks that sources of a partition are judged by."""

    clock_ms: int | None = None
    passing: PassingTime = field(default_factory=PassingTime)

    def look(self, limit_ms: int, *, goes_on: bool) -> Moment | None:
        """Let time pass up to a look; None while no moment is known of."""
        if self.clock_ms is None:
            return None
        return Moment(
            self.clock_ms, self.passing.look(self.clock_ms, limit_ms, goes_on=goes_on)
        )


@dataclass(slots=True)
class Comparison:
    """How a source compares with the others.

    Attributes
    ----------
    newest
        Its newest event time that can be believed, ms.
    lag_ms
        How much older than its storing that was, when the source was heard last; None if that is
        not known.
    is_heard
        Whether a record of it was read.
    is_behind
        Whether it is more than the limit behind the next one, or has no time that can be believed.
    is_out
        Whether it was behind for too long, and is still.
    behind_ms
        How far it is behind; None without a time that can be believed.
    """

    newest: int | None = None
    lag_ms: int | None = None
    is_heard: bool = False
    is_behind: bool = False
    is_out: bool = False
    is_overdue: bool = False
    behind_ms: int | None = None
    _seen: int | None = None
    """Its newest time at the latest look."""
    _since_ms: int | None = None
    """Since when it holds the others."""
    _pace: tuple[int, int] | None = None
    """From which time on its pace is measured, and since when."""

    def hear(self, time: int | None, clock_ms: int | None) -> None:
        """Record what was read, with its time if that can be believed."""
        self.is_heard = True
        if time is not None and (self.newest is None or time > self.newest):
            self.newest = time
        if self.newest is not None and clock_ms is not None:
            self.lag_ms = max(0, clock_ms - self.newest)

    def goes_on(self) -> bool:
        """Return whether it rose since the look before."""
        is_risen, self._seen = self.newest != self._seen, self.newest
        return is_risen and not self.is_behind

    def clear(self) -> None:
        """Record that it is within the bound."""
        self.is_behind = self.is_out = self.is_overdue = False
        self.behind_ms = self._since_ms = self._pace = None

    def fall_behind(self, behind_ms: int | None, moment: Moment | None, limit_ms: int) -> None:
        """Record that it is not within the bound, and how far; its time passes unless it approaches."""
        self.is_behind, self.behind_ms = True, behind_ms
        if moment is None:
            return
        if self._since_ms is None or self._approaches(moment.clock_ms, limit_ms):
            self._since_ms = moment.passed_ms
        self.is_overdue = not self.is_out and moment.passed_ms - self._since_ms >= limit_ms

    def _approaches(self, clock_ms: int, limit_ms: int) -> bool:
        if self.newest is None or self.behind_ms is None:
            return False
        time, since_ms = self._pace or (self.newest, clock_ms)
        suffices = pace_suffices(
            missing=self.behind_ms,
            risen=self.newest - time,
            passed_ms=clock_ms - since_ms,
            most_ms=limit_ms,
        )
        if self._pace is None or suffices is not None:
            self._pace = self.newest, clock_ms
        return bool(suffices)


def look(sources: Iterable[tuple[Comparison, Moment | None]], limit_ms: int) -> None:
    """Find out who is behind the others, and for how long."""
    known, unknown = list[tuple[int, Comparison, Moment | None]](), []
    for one, moment in sources:
        if one.lag_ms is not None:
            known.append((one.lag_ms, one, moment))
        elif one.is_heard and one.newest is None:
            unknown.append((one, moment))
    if all(one.is_out for _, one, _ in known):  # there is nobody to compare with
        return
    known.sort(key=lambda one: one[0], reverse=True)
    behind = _count_behind([lag_ms for lag_ms, _, _ in known], limit_ms)
    next_ms = known[behind][0]
    for lag_ms, one, moment in known[:behind]:
        one.fall_behind(lag_ms - next_ms, moment, limit_ms)
    for _, one, _ in known[behind:]:
        one.clear()
    for one, moment in unknown:
        one.fall_behind(None, moment, limit_ms)


def _count_behind(lags_ms: list[int], limit_ms: int) -> int:
    """Count those, of lags from the greatest down, that are more than a limit behind the next one.

    Several that are near each other are behind together if they are not most of all: those would be
    right, and the few ahead of them wrong.
    """
    behind = 0
    for count in range(1, len(lags_ms)):
        if lags_ms[count - 1] - lags_ms[count] > limit_ms:
            if 2 * (count - behind) > len(lags_ms) - behind:
                break
            behind = count
    return behind
