"""Times of writers' clocks, as they are stored: listening time of their stream."""

import dataclasses

import msgspec

from tidegauge.aggregation.changes import Changes, Entry, StoredAggregation


def in_stream_time(changes: Changes, offset_ms: int) -> Changes:
    """Tell the times of a holder's clock as listening time of a stream, as it is stored."""
    return msgspec.structs.replace(changes, entry=_shifted(changes.entry, offset_ms))


def in_holder_time(stored: StoredAggregation, offset_ms: int) -> StoredAggregation:
    """Tell stored listening time of a stream as times of its holder's clock."""
    return dataclasses.replace(
        stored, entries=(_shifted(one, -offset_ms) for one in stored.entries)
    )


def _shifted(entry: Entry, by_ms: int) -> Entry:
    return msgspec.structs.replace(
        entry,
        writers=[
            one._replace(
                hold_since_ms=_later(one.hold_since_ms, by_ms),
                gone_ms=_later(one.gone_ms, by_ms),
            )
            for one in entry.writers
        ],
        holds={name: _later(since, by_ms) for name, since in entry.holds.items()},
    )


def _later(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else time_ms + by_ms
