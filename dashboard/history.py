"""History: what a value was when, kept as its changes."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping

HOUR_MS = 3_600_000
NOBODY = -1
_NAMES = 64


class History:
    """Changes of a 64-bit value over wall clock, 16 bytes each, for a limited time.

    Parameters
    ----------
    keep_ms
        How far it goes back, ms; the change before that is kept too, since it still holds there.
    """

    def __init__(self, keep_ms: int = HOUR_MS) -> None:
        self._keep_ms = keep_ms
        self._at = array("q")
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._at)

    def add(self, at_ms: int, value: int) -> None:
        """Note what the value is from a moment on; the same as before, or of the past, is no change."""
        if self._at and (value == self._values[-1] or at_ms < self._at[-1]):
            return
        if self._at and at_ms == self._at[-1]:
            self._values[-1] = value
            return
        self._at.append(at_ms)
        self._values.append(value)
        self._forget(at_ms - self._keep_ms)

    def _forget(self, before_ms: int) -> None:
        old = bisect_right(self._at, before_ms) - 1
        if old > 64:  # in portions: each moves all that is kept
            del self._at[:old]
            del self._values[:old]

    def rename(self, names: Mapping[int, int]) -> None:
        """Write each value that is kept as another."""
        self._values = array("q", (names[value] for value in self._values))

    @property
    def newest(self) -> int | None:
        """The value as it is; None before the first change."""
        return self._values[-1] if self._values else None

    def at(self, moments: Iterable[int]) -> Iterator[int | None]:
        """Tell the value at each moment; None before the first change."""
        for moment in moments:
            found = bisect_right(self._at, moment)
            yield self._values[found - 1] if found else None

    def since(self, from_ms: int) -> list[tuple[int, int]]:
        """List the changes after a moment, preceded by the one that holds there."""
        first = max(0, bisect_right(self._at, from_ms) - 1)
        return list(zip(self._at[first:], self._values[first:], strict=True))

    def count_since(self, from_ms: int) -> int:
        """Count the changes after a moment."""
        return len(self._at) - bisect_right(self._at, from_ms)


class Holders:
    """Who held a watermark, over wall clock.

    Attributes
    ----------
    changes
        Places in `names`; `NOBODY` for nobody.
    names
        Of all that held it in that time, and some before.
    free_ms
        When nobody was last seen to hold it; None if that was never seen.
    """

    def __init__(self) -> None:
        self.changes = History(HOUR_MS // 3)
        self.names: list[str] = []
        self.free_ms: int | None = None

    def add(self, at_ms: int, holder: str | None) -> None:
        """Note who holds it from a moment on."""
        if holder is not None and holder not in self.names:
            self._forget()
            self.names.append(holder)
        place = NOBODY if holder is None else self.names.index(holder)
        if place == NOBODY:
            self.free_ms = at_ms
        self.changes.add(at_ms, place)

    def _forget(self) -> None:
        """Drop names that no change has any more: of many writers each may hold once."""
        if len(self.names) <= _NAMES + 2 * len(self.changes):
            return
        used = sorted({place for _, place in self.changes.since(0)} - {NOBODY})
        self.names = [self.names[place] for place in used]
        self.changes.rename({NOBODY: NOBODY} | {was: now for now, was in enumerate(used)})
