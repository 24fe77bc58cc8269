"""Times of writers' clocks, as they are stored: listening time of their stream."""

import dataclasses

import msgspec

from tidegauge.aggregation.changes import Changes, StoredAggregation, StoredWriter


def in_stream_time(changes: Changes, offset_ms: int) -> Changes:
    """Tell the times of a holder's clock as listening time of a stream, as it is stored."""
    return msgspec.structs.replace(
        changes,
        writers=[_shifted(one, offset_ms) for one in changes.writers],
        holds={name: _later(since, offset_ms) for name, since in changes.holds.items()},
    )


def in_holder_time(stored: StoredAggregation, offset_ms: int) -> StoredAggregation:
    """Tell stored listening time of a stream as times of its holder's clock."""
    return dataclasses.replace(
        stored, writers=(_shifted(one, -offset_ms) for one in stored.writers)
    )


def _shifted(writer: StoredWriter, by_ms: int) -> StoredWriter:
    return writer._replace(
        hold_since_ms=_later(writer.hold_since_ms, by_ms),
        gone_ms=_later(writer.gone_ms, by_ms),
    )


def _later(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else time_ms + by_ms
