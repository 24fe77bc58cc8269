"""Pages of lists: bounded by what is in them, too, since they are written in the event loop."""

from collections.abc import Callable, Iterable
from typing import TypeVar

_ENTRIES_PER_PAGE = 25_000
"""Of positions: a microsecond or two each, in which all others wait."""

_T = TypeVar("_T")


def first_page(
    listed: Iterable[_T], limit: int, *, entries: Callable[[_T], int]
) -> tuple[list[_T], bool]:
    """Take the first page of a list, and tell whether more follows.

    Besides ``limit`` items, a page has no more ``entries`` than others can wait for, but one item
    anyhow.

    Examples
    --------
    >>> first_page("abc", 2, entries=lambda _one: 1)
    (['a', 'b'], True)
    >>> first_page("abc", 3, entries=lambda _one: 15_000)
    (['a'], True)
    """
    page: list[_T] = []
    left = _ENTRIES_PER_PAGE
    for item in listed:
        left -= entries(item)
        if page and (len(page) == limit or left < 0):
            return page, True
        page.append(item)
    return page, False
