"""The options of readers, groups and stream clients, the same for both faces."""

from datetime import timedelta
from typing import TypedDict


class ReaderOptions(TypedDict, total=False):
    """Keyword arguments of what belongs to a reader group."""

    token: str | None
    retry_for: timedelta


class StreamOptions(ReaderOptions, total=False):
    """Keyword arguments of `AsyncStreamClient` and `StreamClient`."""

    stream_id: str | None
