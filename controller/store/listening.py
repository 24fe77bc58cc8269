"""Times of writers' clocks, as they are stored: listening time of their stream."""

import dataclasses

import msgspec

from tidegauge.aggregation.changes import (
    Changes,
    ClockState,
    Entry,
    StoredAggregation,
    StoredClocks,
    StoredTime,
)


def in_stream_time(changes: Changes, offset_ms: int) -> Changes:
    """Convert the times of a holder's clock to listening time of a stream, as it is stored."""
    return msgspec.structs.replace(changes, entry=_shifted(changes.entry, offset_ms))


def in_holder_time(stored: StoredAggregation, offset_ms: int) -> StoredAggregation:
    """Convert stored listening time of a stream to times of its holder's clock."""
    return dataclasses.replace(
        stored, entries=(_shifted(one, -offset_ms) for one in stored.entries)
    )


def _shifted(entry: Entry, by_ms: int) -> Entry:
    return msgspec.structs.replace(
        entry,
        writers=[
            one._replace(clocks=_shifted_clocks(one.clocks, by_ms)) for one in entry.writers
        ],
        looks=[
            one._replace(now_ms=one.now_ms + by_ms, state=_shifted_state(one.state, by_ms))
            for one in entry.looks
        ],
        state=None if entry.state is None else _shifted_state(entry.state, by_ms),
    )


def _shifted_clocks(clocks: StoredClocks, by_ms: int) -> StoredClocks:
    return clocks._replace(
        gone_ms=_later(clocks.gone_ms, by_ms),
        found_ms=_later(clocks.found_ms, by_ms),
        pace_ms=_later(clocks.pace_ms, by_ms),
    )


def _shifted_state(state: ClockState, by_ms: int) -> ClockState:
    return state._replace(
        silence=_shifted_time(state.silence, by_ms), limit=_shifted_time(state.limit, by_ms)
    )


def _shifted_time(time: StoredTime, by_ms: int) -> StoredTime:
    return time._replace(moved_ms=_later(time.moved_ms, by_ms))


def _later(time_ms: int | None, by_ms: int) -> int | None:
    return None if time_ms is None else time_ms + by_ms
