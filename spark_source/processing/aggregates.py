"""Aggregates of windows: what is kept of rows, and what is said of them."""

from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Kind: TypeAlias = Literal["count", "sum", "min", "max", "mean"]


class Aggregate(Protocol):
    """An aggregate, also one of the user's own.

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
        """Return what is said of the rows."""


@dataclass(frozen=True, slots=True)
class _Count:
    column: None = None

    def zero(self) -> int:
        return 0

    def add(self, accumulator: int, _value: object) -> int:
        return accumulator + 1

    def merge(self, left: int, right: int) -> int:
        return left + right

    def result(self, accumulator: int) -> int:
        return accumulator


@dataclass(frozen=True, slots=True)
class _OfValues:
    """An aggregate that is null over nothing, and whose accumulator is a value itself."""

    column: str

    def zero(self) -> Any:  # noqa: ANN401 (values of the column's type)
        return None

    def result(self, accumulator: Any) -> Any:  # noqa: ANN401 (as above)
        return accumulator


@dataclass(frozen=True, slots=True)
class _Sum(_OfValues):
    def add(self, accumulator: Any, value: Any) -> Any:  # noqa: ANN401 (as above)
        if value is None or accumulator is None:
            return accumulator if value is None else value
        return accumulator + value

    merge = add


@dataclass(frozen=True, slots=True)
class _Min(_OfValues):
    def add(self, accumulator: Any, value: Any) -> Any:  # noqa: ANN401 (as above)
        if value is None or accumulator is None:
            return accumulator if value is None else value
        # NaN, which differs from itself, is the greatest number, as in Spark.
        return value if value < accumulator or accumulator != accumulator else accumulator  # noqa: PLR0124

    merge = add


@dataclass(frozen=True, slots=True)
class _Max(_OfValues):
    def add(self, accumulator: Any, value: Any) -> Any:  # noqa: ANN401 (as above)
        if value is None or accumulator is None:
            return accumulator if value is None else value
        return value if value > accumulator or value != value else accumulator  # noqa: PLR0124

    merge = add


@dataclass(frozen=True, slots=True)
class _Mean:
    column: str

    def zero(self) -> tuple[Any, int]:
        return 0, 0

    def add(self, accumulator: tuple[Any, int], value: Any) -> tuple[Any, int]:  # noqa: ANN401 (as above)
        return accumulator if value is None else (accumulator[0] + value, accumulator[1] + 1)

    def merge(self, left: tuple[Any, int], right: tuple[Any, int]) -> tuple[Any, int]:
        return left[0] + right[0], left[1] + right[1]

    def result(self, accumulator: tuple[Any, int]) -> Any:  # noqa: ANN401 (as above)
        total, count = accumulator
        return total / count if count else None


_KINDS: dict[type, Kind] = {
    _Count: "count",
    _Sum: "sum",
    _Min: "min",
    _Max: "max",
    _Mean: "mean",
}


def kind_of(aggregate: Aggregate) -> Kind | None:
    """Tell which of the functions below has made an aggregate; None for one of the user's own."""
    return _KINDS.get(type(aggregate))


def count() -> Aggregate:
    """Count rows."""
    return _Count()


def sum(column: str) -> Aggregate:  # noqa: A001 (its name in SQL)
    """Add up a column, without nulls; null over nothing."""
    return _Sum(column)


def min(column: str) -> Aggregate:  # noqa: A001 (as above)
    """Take the least of a column, without nulls; null over nothing."""
    return _Min(column)


def max(column: str) -> Aggregate:  # noqa: A001 (as above)
    """Take the greatest of a column, without nulls; null over nothing."""
    return _Max(column)


def mean(column: str) -> Aggregate:
    """Divide the sum of a column by the number of its values that are not null."""
    return _Mean(column)
