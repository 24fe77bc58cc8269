"""The options of writers, the same for both faces."""

from datetime import datetime, timedelta
from typing import TypedDict


class ReporterOptions(TypedDict, total=False):
    """Keyword arguments of `AsyncTimeReporter` and `TimeReporter`."""

    token: str | None
    first_time: int | datetime | None
    retry_for: timedelta


class WriterOptions(ReporterOptions, total=False):
    """Keyword arguments of `AsyncWriter` and `Writer`."""

    automatically_note_time: bool
    batch_bytes: int
    linger: timedelta
    buffer_bytes: int
