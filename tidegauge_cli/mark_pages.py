"""The marks of a stream, page by page; a page may hold fewer than are asked for."""

from collections.abc import Awaitable, Callable, Sequence

from tidegauge.wire.streams import MarkInfo

PAGE = 1_000
"""How many marks are read at once, at most."""
_Read = Callable[..., Awaitable[list[MarkInfo]]]
"""Reads the marks behind a revision: a page, or at most so many."""


async def first_marks(read: _Read, *, after: int, limit: int) -> list[MarkInfo]:
    """Find the first marks after a revision, oldest first."""
    found: list[MarkInfo] = []
    while len(found) < limit and (page := await read(after, limit - len(found))):
        found += page
        after = page[-1].revision
    return found


async def last_before(read: _Read, moment_ms: int, *, revision: int) -> int:
    """Find the revision behind which all marks were made at a moment or later, by halving."""
    low = 0
    while low < revision:
        middle = (low + revision) // 2
        page = await read(middle, 1)
        if page and (page[0].marked_ms or 0) < moment_ms:
            low = page[0].revision
        else:
            revision = middle
    return low


async def newest_marks(read: _Read, *, revision: int, limit: int) -> list[MarkInfo]:
    """Find the newest marks up to a revision that are still there, oldest first; at most a page.

    It looks back twice as far each time, and half as far where more marks lie than a page holds.
    """
    found: list[MarkInfo] = []
    seen_down_to, step = revision, limit
    while seen_down_to > 0 and len(found) < limit:
        after = max(0, seen_down_to - step)
        page = await read(after)
        if page and page[-1].revision < seen_down_to:
            step //= 2
            continue
        found = [one for one in page if one.revision <= seen_down_to] + found
        seen_down_to, step = after, step * 2
    return found[-limit:]


def describe_extent(found: Sequence[MarkInfo], *, revision: int, limit: int) -> str | None:
    """Say which of all marks the newest ones are; None if they are all that were ever made."""
    shown = len(found)
    if shown == revision:
        return None
    if shown < limit:
        return f"these {shown} are left of {revision} marks: older ones were thinned or removed"
    return f"the newest {shown} of {revision} marks; --limit shows more, --after older ones"
