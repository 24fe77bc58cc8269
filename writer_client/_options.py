"""The options of writers, the same for both faces."""

from datetime import datetime, timedelta
from typing import Literal, TypedDict

from writer_client.strategies import Strategy

_NOTE_INTERVAL = timedelta(milliseconds=200)
"""As often as Flink asks its strategies."""


class _Options(TypedDict, total=False):
    token: str | None
    first_time: int | datetime | None
    retry_for: timedelta
    strategy: Strategy | None
    note_interval: timedelta


class ReporterOptions(_Options, total=False):
    """Keyword arguments of `AsyncTimeReporter` and `TimeReporter`."""

    beat: Literal["never", "always"]


class ProducerOptions(_Options, total=False):
    """Keyword arguments of `NotingProducer` beyond its own."""

    beat: Literal["unacknowledged", "always"]


class WriterOptions(_Options, total=False):
    """Keyword arguments of `AsyncWriter` and `Writer`."""

    beat: Literal["unacknowledged", "always"]
    automatically_note_time: bool
    batch_bytes: int
    linger: timedelta
    buffer_bytes: int


def note_interval_s(options: _Options) -> float:
    """Tell how often a strategy is asked; ``ValueError`` if it could not be."""
    interval = options.get("note_interval", _NOTE_INTERVAL)
    if not isinstance(interval, timedelta) or interval <= timedelta(0):
        msg = f"note_interval is {interval!r}; pass a timedelta above zero, such as {_NOTE_INTERVAL!r}"
        raise ValueError(msg)
    return interval.total_seconds()
