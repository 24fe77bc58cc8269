"""The pace of a stream, from what was seen of it."""

from tidegauge.explain.states import Pace
from tidegauge_dashboard.history import History

TUBE_MS = 300_000
"""The span that the overview shows."""
_RATE_MS = 60_000
_GAIN_MS = 30_000


def pace_of(revisions: History, watermarks: History, now_ms: int) -> Pace:
    """Return how a stream has moved lately, by the revisions and the watermarks of its marks."""
    return Pace(
        _distance_ms(revisions, now_ms), _gain(watermarks, now_ms), _rate(revisions, now_ms)
    )


def _distance_ms(revisions: History, now_ms: int) -> float | None:
    from_ms = now_ms - TUBE_MS
    changes = [one for one in revisions.since(from_ms) if one[0] > from_ms]
    if len(changes) < 2:
        return None
    (first_at, first), (last_at, last) = changes[0], changes[-1]
    return (last_at - first_at) / (last - first)


def _rate(revisions: History, now_ms: int) -> float:
    """Count marks a second, from the first that was seen."""
    changes = revisions.since(now_ms - _RATE_MS)
    if not changes:
        return 0.0
    (first_at, first), (_, last) = changes[0], changes[-1]
    watched_ms = now_ms - max(first_at, now_ms - _RATE_MS)
    return 1_000 * (last - first) / max(watched_ms, 1_000)


def _gain(watermarks: History, now_ms: int) -> float | None:
    changes = watermarks.since(now_ms - _GAIN_MS)
    if len(changes) < 2:
        return None
    (first_at, first), (last_at, last) = changes[0], changes[-1]
    return (last - first) / max(last_at - first_at, 1)
