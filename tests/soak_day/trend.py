"""Whether what was measured rises. No I/O, no clock.

The time of a run is cut into quarters, each of these into four blocks, and each block counts as its
median. The first quarter, in which caches fill, says nothing, and a run of less than an hour is all
of that kind. A measurement rises if all of these hold:

- the median of the last quarter is above that of the second by a share of it;
- … and by more than a floor below which nobody cares (`LIMITS` has both, by the kind);
- even the lowest block of the last quarter is above the highest of the second. Without a trend one
  measurement in seventy does that by chance, and seldom by so much.
"""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

SHORTEST_S = 3_600
_BLOCKS = 4
_LEAST_SAMPLES = 3


class Limit(NamedTuple):
    """How far a kind of measurement may rise: a share, and a floor in its unit."""

    share: float
    floor: float


LIMITS: Mapping[str, Limit] = {
    "memory, MB": Limit(0.10, 10),
    "open files": Limit(0.10, 10),
    "tables, MB": Limit(0.10, 2),
    "folders, MB": Limit(0.10, 5),
    "latency, ms": Limit(0.50, 50),
    "delay, ms": Limit(0.50, 1_000),
}


class Change(NamedTuple):
    """A measurement in the second quarter of a run, and in the last."""

    second: float
    last: float
    rises: bool


def change_of(
    samples: Sequence[tuple[float, float]], end_s: float, limit: Limit
) -> Change | None:
    """Compare the quarters of a run by samples, each when and what; None if nothing can be said.

    A block of less than three samples is one of a process that was away: nothing can be said then.
    """
    width = end_s / (4 * _BLOCKS)
    blocks: list[list[float]] = [[] for _ in range(4 * _BLOCKS)]
    for at, value in samples:
        blocks[min(int(at / width), len(blocks) - 1)].append(value)
    compared = blocks[_BLOCKS : 2 * _BLOCKS] + blocks[3 * _BLOCKS :]
    if end_s < SHORTEST_S or min(map(len, compared)) < _LEAST_SAMPLES:
        return None
    medians = [median(one) for one in compared]
    second, last = medians[:_BLOCKS], medians[_BLOCKS:]
    before, after = median(second), median(last)
    rises = after > before + max(limit.share * before, limit.floor) and min(last) > max(second)
    return Change(before, after, rises)
