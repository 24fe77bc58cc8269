"""Settings of a stream that steer its aggregation."""

from dataclasses import dataclass

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamSettings:
    """How reports become marks; the names are those of the HTTP API.

    Attributes
    ----------
    aggregation_timeout_ms
        How long a writer that somebody is ahead of may be silent; None for ever.
    hold_limit_ms
        How long it may stand still, silent or not; None for ever.
    min_writers
        No first mark before so many distinct writers ever had a report accepted.
    mark_interval_ms
        At most one pass in so much wall clock; 0 for one after every change.
    mark_resolution_ms
        Marks are at least so far apart in event time, but for the newest; 0 for all.
    mark_retention_ms
        How long old marks are kept, in wall clock; None as long as the events.
    writer_retention_ms
        When a writer that left or expired is forgotten; None never.
    max_future_skew_ms
        How far a noted time may be ahead of the server's clock; None for logical time.
    """

    aggregation_timeout_ms: int | None = 60_000
    hold_limit_ms: int | None = 600_000
    min_writers: int = 0
    mark_interval_ms: int = 100
    mark_resolution_ms: int = 1_000
    mark_retention_ms: int | None = None
    writer_retention_ms: int | None = 7 * DAY_MS
    max_future_skew_ms: int | None = 3_600_000
