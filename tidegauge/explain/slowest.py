"""The slowest writers of a stream, chosen from all of them once a second at most."""

from heapq import nsmallest
from itertools import chain, islice
from math import inf
from operator import attrgetter

from tidegauge.aggregation.progress import Progress
from tidegauge.aggregation.writers import Now, Writer
from tidegauge.event_time import FIRST_TIME

_LEAST = 100
"""More are found than are asked for: some will have gone on before all are visited again."""
_KEPT_MS = 1_000
"""To visit each of 100 000 writers takes as long as a page of them, and all others wait."""


class Slowest:
    """Knows which live writers stand lowest; how high they stand is always as of now.

    Besides those that have noted no time yet, it misses writers that became low since all were last
    visited.
    """

    def __init__(self) -> None:
        self._slowest: list[Writer] = []
        self._listed_ms = -inf
        self._most = 0
        """How many were asked for then."""

    def first(self, count: int, progress: Progress, now: Now) -> list[Writer]:
        """Return the lowest, those first that stand nowhere."""
        if now.listening_ms - self._listed_ms >= _KEPT_MS or count > self._most:
            self._slowest = lowest(progress, max(_LEAST, 2 * count))
            self._listed_ms, self._most = now.listening_ms, count
        some = dict.fromkeys(chain(islice(progress.joining, count), self._slowest))
        return nsmallest(count, (writer for writer in some if writer.life.live), key=order)


def lowest(progress: Progress, count: int) -> list[Writer]:
    """Choose so many live writers; whoever holds the watermark stands below whoever is ahead."""
    nowhere = list(
        islice((writer for writer in progress.joining if writer.stand.at is None), count)
    )
    holding = (writer for writer in progress.holders if writer.stand.at is not None)
    chosen = [*nowhere, *nsmallest(count - len(nowhere), holding, key=_stand)]
    if len(chosen) < count:
        ahead = (writer for writer in progress.ahead if writer.life.live)
        chosen += nsmallest(count - len(chosen), ahead, key=_stand)
    return chosen


def order(writer: Writer) -> tuple[int, str]:
    """Return the order of writers by where they stand, those first that stand nowhere, then by name."""
    at = writer.stand.at
    return FIRST_TIME - 1 if at is None else at, writer.name


_stand = attrgetter("stand.at")
