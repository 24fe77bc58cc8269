"""How fast rows are removed in the background, so that reports hardly notice."""

from time import perf_counter

_TRANSACTION_S = 0.005
"""Aimed at: so much longer does a report wait that comes during a transaction that removes."""


class Pace:
    """How many rows to remove in one step, and how long to rest after it."""

    def __init__(self, *, most_rows: int = 500, rest: float = 9.0) -> None:
        self.rows = self._most_rows = most_rows
        self._rest = rest

    def adjust(self, began: float, *, fewest: int) -> None:
        """Halve or double the rows by how long a transaction took since ``perf_counter()``."""
        slow = perf_counter() - began > _TRANSACTION_S
        rows = self.rows // 2 if slow else self.rows * 2
        self.rows = min(self._most_rows, max(fewest, rows))

    def rest_s(self, began: float) -> float:
        """Say how long to rest after a step that began then."""
        return self._rest * (perf_counter() - began)
