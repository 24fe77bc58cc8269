"""Aggregates of windows: what is kept of rows, and what is said of them."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["count", "sum", "min", "max", "mean"]


class Aggregate(Protocol):
    """An aggregate of the user's own.

    Its result must not depend on the order or grouping in which values are added and merged.
    """

    @property
    def column(self) -> str | None:
        """The column whose values are added; None for an aggregate that looks at none."""

    def zero(self) -> Any:  # noqa: ANN401 (the aggregate's own)
        """Make the accumulator of no rows."""

    def add(self, accumulator: Any, value: Any) -> Any:  # noqa: ANN401 (as above)
        """Add a row's value, which may be null; return the accumulator from now on."""

    def merge(self, left: Any, right: Any) -> Any:  # noqa: ANN401 (as above)
        """Return the accumulator of the rows of both."""

    def result(self, accumulator: Any) -> Any:  # noqa: ANN401 (as above)
        """Return the result of the accumulated rows."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """An aggregate that is computed over whole columns.

    Attributes
    ----------
    kind
        What it says of the values.
    column
        The column whose values are added; None to count rows.
    """

    kind: Kind
    column: str | None = None


def count() -> BuiltIn:
    """Count rows."""
    return BuiltIn("count")


def sum(column: str) -> BuiltIn:  # noqa: A001 (its name in SQL)
    """Sum a column without its nulls; null if there is no value."""
    return BuiltIn("sum", column)


def min(column: str) -> BuiltIn:  # noqa: A001 (as above)
    """Return the minimum of a column; null if there is no value."""
    return BuiltIn("min", column)


def max(column: str) -> BuiltIn:  # noqa: A001 (as above)
    """Return the maximum of a column; null if there is no value."""
    return BuiltIn("max", column)


def mean(column: str) -> BuiltIn:
    """Return the mean of a column without its nulls; null if there is no value."""
    return BuiltIn("mean", column)
