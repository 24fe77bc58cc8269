"""Tables sorted by a column that somebody chose."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

_T = TypeVar("_T")


def sorted_by(
    things: Iterable[_T], sort: str, columns: Mapping[str, Callable[[_T], Any]]
) -> list[_T]:
    """Sort things by a column; without one that is known they stay as they are.

    Equals stay in order, and what has no value comes last.

    Parameters
    ----------
    sort
        The name of a column, with ``-`` in front for the greatest first.

    Examples
    --------
    >>> sorted_by([3, None, 1], "-size", {"size": lambda one: one})
    [3, 1, None]
    """
    found = list(things)
    column = columns.get(sort.removeprefix("-"))
    if column is None:
        return found
    values = [(column(one), one) for one in found]
    known = [pair for pair in values if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=sort.startswith("-"))
    return [one for _, one in known] + [one for value, one in values if value is None]
