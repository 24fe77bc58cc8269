"""What the windows of a query are, and when and what they say."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from spark_source.errors import InvalidOptionError
from spark_source.processing import blobs
from spark_source.processing.aggregates import Aggregate, BuiltIn
from spark_source.processing.assigners import Assigner

Accumulation: TypeAlias = Literal["accumulating", "discarding", "accumulating_and_retracting"]
Trigger: TypeAlias = Literal["on_time", "early"]


@dataclass(frozen=True, kw_only=True)
class WindowSettings:
    """What the windows of a query are, and when and what they say.

    Attributes
    ----------
    assigner
        For example of `tumbling`, `sliding` or `session`.
    aggregates
        By the names of their columns in the output.
    columns
        The names of what follows key, event time, segment and offset in a row.
    lateness_ms
        How long after it has closed a window is kept, for rows that are late.
    accumulation
        Whether a firing says all rows so far (``accumulating``), those not said yet
        (``discarding``), or all and takes back what was said before
        (``accumulating_and_retracting``).
    trigger
        Whether windows fire also while they are open, in each step that changes them
        (``early``), or not (``on_time``).
    buckets
        How many buckets the keys are divided over; state remembers it.
    """

    assigner: Assigner
    aggregates: Mapping[str, Aggregate | BuiltIn]
    columns: Sequence[str] = ("value",)
    lateness_ms: int = 0
    accumulation: Accumulation = "accumulating"
    trigger: Trigger = "on_time"
    buckets: int = 1

    def __post_init__(self) -> None:
        if self.lateness_ms < 0:
            raise InvalidOptionError("allowed_lateness", f"{self.lateness_ms} ms is below 0")
        _check_one_of("accumulation", self.accumulation, get_args(Accumulation))
        _check_one_of("trigger", self.trigger, get_args(Trigger))
        for name, aggregate in self.aggregates.items():
            column = aggregate.column
            if column is not None and column not in self.columns:
                has = ", ".join(self.columns) or "none"
                raise InvalidOptionError(
                    "aggregates", f"{name!r} is of column {column!r}; there are: {has}"
                )

    def of_state(self) -> blobs.Settings:
        """Return what state depends on; lateness and trigger may change at a restart."""
        return {
            "operator": "windowed",
            "assigner": repr(self.assigner),
            "aggregates": {
                name: (_name_in_state(one), one.column) for name, one in self.aggregates.items()
            },
            "accumulation": self.accumulation,
            "buckets": self.buckets,
        }


def _name_in_state(aggregate: Aggregate | BuiltIn) -> str:
    """Return what state calls an aggregate: not its repr, which may have an address in memory."""
    if isinstance(aggregate, BuiltIn):
        return f"_{aggregate.kind.capitalize()}"
    return type(aggregate).__qualname__


def _check_one_of(option: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise InvalidOptionError(option, f"{value!r} is not one of {', '.join(allowed)}")
