"""History: what a value was when, kept as its changes."""

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

HOUR_MS = 3_600_000
APART_MS = 5_000
"""While a page is open, the service is asked every 4 s or sooner; if not, every 15 s."""
NOBODY = -1
_NAMES = 64
_EVER = 2**63


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
        """Return the value at each moment; None before the first change."""
        for moment in moments:
            found = bisect_right(self._at, moment)
            yield self._values[found - 1] if found else None

    def since(self, from_ms: int) -> list[tuple[int, int]]:
        """List the changes after a moment, preceded by the one that holds there."""
        first = max(0, bisect_right(self._at, from_ms) - 1)
        return list(zip(self._at[first:], self._values[first:], strict=True))


class Samples:
    """Values that were seen at some moments; what lies between two is known only if they are close.

    Parameters
    ----------
    keep_ms
        How far it goes back, ms.
    apart_ms
        How far apart two samples may be, ms, that leave nothing unseen between them.
    """

    def __init__(self, keep_ms: int = HOUR_MS, *, apart_ms: int = APART_MS) -> None:
        self.values = History(keep_ms)
        self._seen = History(keep_ms)
        self._apart_ms = apart_ms
        self.last_ms: int | None = None

    @property
    def newest(self) -> int | None:
        """The value as it was seen last; None before that."""
        return self.values.newest

    def add(self, at_ms: int, value: int, *, stayed: bool = False) -> None:
        """Record what was seen at a moment; samples that are older than the last are left out.

        Parameters
        ----------
        stayed
            Whether the value is known to have been the same since the last sample.
        """
        if self.last_ms is not None and at_ms < self.last_ms:
            return
        if self.last_ms is not None and at_ms - self.last_ms > self._apart_ms and not stayed:
            self._seen.add(self.last_ms, False)
        self._seen.add(at_ms, True)
        self.values.add(at_ms, value)
        self.last_ms = at_ms

    def at(self, moments: Sequence[int], *, now_ms: int) -> Iterator[int | None]:
        """Return the value at each moment; None where nobody saw it."""
        until_ms = self._seen_until(now_ms)
        found = zip(moments, self.values.at(moments), self._seen.at(moments), strict=True)
        for moment, value, seen in found:
            yield value if seen and moment < until_ms else None

    def _seen_until(self, now_ms: int) -> int:
        """Return the end of what was seen: the last sample holds on while the next is not due."""
        last_ms = self.last_ms
        return _EVER if last_ms is None or now_ms - last_ms <= self._apart_ms else last_ms

    def spans(self, from_ms: int, until_ms: int) -> list[tuple[int, int, int | None]]:
        """List the spans in which the value was the same; it is None where nobody saw it."""
        turns = {at for at, _ in (*self.values.since(from_ms), *self._seen.since(from_ms))}
        turns.add(self._seen_until(until_ms))
        starts = [from_ms, *sorted(at for at in turns if from_ms < at < until_ms)]
        values = self.at(starts, now_ms=until_ms)
        parts = zip(starts, [*starts[1:], until_ms], values, strict=True)
        spans = []
        for value, group in groupby(parts, key=lambda part: part[2]):
            same = list(group)
            spans.append((same[0][0], same[-1][1], value))
        return spans


class Holders:
    """Who held a watermark, over wall clock.

    Attributes
    ----------
    samples
        Places in `names`; `NOBODY` for nobody.
    names
        Of all that held it in that time, and some before.
    """

    def __init__(self) -> None:
        self.samples = Samples(HOUR_MS // 3)
        self.names: list[str] = []

    def add(self, at_ms: int, holder: str | None, *, stood_since_ms: int | None = None) -> None:
        """Record who holds it at a moment, and since when the watermark has stood.

        Whoever is last at both ends of a span in which the watermark stood was last all the time.
        """
        if holder is not None and holder not in self.names:
            self._forget()
            self.names.append(holder)
        place = NOBODY if holder is None else self.names.index(holder)
        last_ms = self.samples.last_ms
        stood = stood_since_ms is not None and last_ms is not None and stood_since_ms <= last_ms
        self.samples.add(at_ms, place, stayed=stood and place == self.samples.newest)

    def _forget(self) -> None:
        """Drop names that no change has any more: of many writers each may hold once."""
        changes = self.samples.values
        if len(self.names) <= _NAMES + 2 * len(changes):
            return
        used = sorted({place for _, place in changes.since(0)} - {NOBODY})
        self.names = [self.names[place] for place in used]
        changes.rename({NOBODY: NOBODY} | {was: now for now, was in enumerate(used)})
