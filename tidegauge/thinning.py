"""Which times of kept reports become marks: fine enough to replay, few enough to store."""

from collections.abc import Iterable

MARKS_PER_PASS = 1_000


def thinned(
    times: Iterable[int], target: int, watermark: int | None, resolution_ms: int
) -> list[int]:
    """Choose the lower bounds of one pass's marks (section 3 of the rules).

    Parameters
    ----------
    times
        Distinct times between the watermark and the target, both excluded, rising.
    target
        The time that the pass reaches; always the last of the result.
    watermark
        Of the newest mark; None before the first.
    resolution_ms
        A time nearer than this to the one kept before it, or to the target, is skipped.

    Examples
    --------
    >>> thinned([10, 14, 15, 19], 20, 5, 5)
    [10, 15, 20]
    """
    chosen: list[int] = []
    before = watermark
    for time in times:
        if target - time < resolution_ms:
            break
        if before is None or time - before >= resolution_ms:
            chosen.append(time)
            before = time
    below = MARKS_PER_PASS - 1
    if len(chosen) > below:
        count = len(chosen)
        chosen = [chosen[i * count // below] for i in range(below)]
    return [*chosen, target]
