"""The options of writers, the same for both faces."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, TypedDict

from writer_client.strategies import Strategy, TimeLag

_NOTE_INTERVAL = timedelta(milliseconds=200)
"""As often as Flink asks its strategies."""


class CommonOptions(TypedDict, total=False):
    """Keyword arguments of all of them, but that each has its own values of ``beat``."""

    token: str | None
    first_time: int | datetime | None
    retry_for: timedelta
    strategy: Strategy | None
    note_interval: timedelta


class ReporterOptions(CommonOptions, total=False):
    """Keyword arguments of `AsyncTimeReporter` and `TimeReporter`."""

    beat: Literal["never", "always"]


class ProducerOptions(CommonOptions, total=False):
    """Keyword arguments of `NotingProducer` beyond its own."""

    beat: Literal["unacknowledged", "always"]


class WriterOptions(CommonOptions, total=False):
    """Keyword arguments of `AsyncWriter` and `Writer`."""

    beat: Literal["unacknowledged", "always"]
    automatically_note_time: bool
    batch_bytes: int
    linger: timedelta
    buffer_bytes: int


def note_interval_s(options: CommonOptions) -> float:
    """Return how often a strategy is asked; ``ValueError`` if it could not be."""
    interval = options.get("note_interval", _NOTE_INTERVAL)
    if not isinstance(interval, timedelta) or interval <= timedelta(0):
        msg = f"note_interval is {interval!r}; pass a timedelta above zero, such as {_NOTE_INTERVAL!r}"
        raise ValueError(msg)
    return interval.total_seconds()


def beats_always(options: Mapping[str, Any], *, seldom: str, default: str) -> bool:
    """Return whether to beat always, or more seldom; ``ValueError`` for an unknown value."""
    given = options.get("beat", default)
    if given not in {seldom, "always"}:
        msg = f"beat is {given!r}; it is {seldom!r} or 'always'"
        raise ValueError(msg)
    return bool(given == "always")


def strategy_of(options: Mapping[str, Any]) -> Strategy | None:
    """Return the strategy to note by, if there is one."""
    strategy = options.get("strategy")
    if not isinstance(strategy, Strategy | None):
        msg = (
            f"strategy is {strategy!r}; pass a Strategy, such as TimeLag(timedelta(seconds=5))"
        )
        raise TypeError(msg)
    if not options.get("automatically_note_time"):
        return strategy
    if strategy is not None:
        msg = (
            "automatically_note_time is a strategy itself, TimeLag of 0; leave one of them out"
        )
        raise ValueError(msg)
    return TimeLag(timedelta(0))
