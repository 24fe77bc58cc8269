"""The options of writers, the same for both faces."""

from datetime import datetime, timedelta
from typing import Literal, TypedDict


class _Options(TypedDict, total=False):
    token: str | None
    first_time: int | datetime | None
    retry_for: timedelta


class ReporterOptions(_Options, total=False):
    """Keyword arguments of `AsyncTimeReporter` and `TimeReporter`."""

    beat: Literal["never", "always"]


class WriterOptions(_Options, total=False):
    """Keyword arguments of `AsyncWriter` and `Writer`."""

    beat: Literal["unacknowledged", "always"]
    automatically_note_time: bool
    batch_bytes: int
    linger: timedelta
    buffer_bytes: int
