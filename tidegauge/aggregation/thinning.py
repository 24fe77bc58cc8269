"""Which times of kept reports become marks: fine enough to replay, few enough to store."""

from bisect import bisect_left
from collections.abc import Sequence

MARKS_PER_PASS = 1_000
_ENTRIES_PER_PASS = 1_000_000
_AT_LEAST = 10


def most_marks(segments: int) -> int:
    """Return how many marks a pass may make, so that their cuts fit into one transaction."""
    return max(_AT_LEAST, min(MARKS_PER_PASS, _ENTRIES_PER_PASS // max(1, segments)))


def thinned(
    times: Sequence[int],
    target: int,
    watermark: int | None,
    resolution_ms: int,
    *,
    most: int = MARKS_PER_PASS,
) -> list[int]:
    """Choose the lower bounds of one pass's marks (section 3 of the rules).

    Parameters
    ----------
    times
        Above the watermark and up to the target, not falling.
    target
        The time that the pass reaches; always the last of the result.
    watermark
        Of the newest mark; None before the first.
    resolution_ms
        A time nearer than this to the one kept before it, or to the target, is skipped.
    most
        How many are chosen at most; see `most_marks`.

    Examples
    --------
    >>> thinned([10, 14, 15, 19], 20, 5, 5)
    [10, 15, 20]
    """
    chosen: list[int] = []
    step = max(1, resolution_ms)
    at = 0 if watermark is None else bisect_left(times, watermark + step)
    while at < len(times) and times[at] <= target - step:
        chosen.append(times[at])
        at = bisect_left(times, times[at] + step, at + 1)
    below = most - 1
    if len(chosen) > below:
        count = len(chosen)
        chosen = [chosen[i * count // below] for i in range(below)]
    return [*chosen, target]
