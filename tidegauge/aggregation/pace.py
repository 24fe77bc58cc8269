"""The pace of a writer, or of anything else, that is behind and catches up."""

_LEAST_SHARE = 10
"""A pace is judged over this part of the longest wait at least."""


def pace_suffices(*, missing: int, risen: int, passed_ms: int, most_ms: int) -> bool | None:
    """Return whether the pace of what is behind suffices.

    Parameters
    ----------
    missing
        How far it is behind, in event time.
    risen, passed_ms
        How far its time rose, and in what time.
    most_ms
        How long the others would wait for it at most.

    Returns
    -------
    bool or None
        Whether they would wait for no longer, at that pace. None: it did not rise, or was measured
        for too short a time.
    """
    if risen <= 0 or _LEAST_SHARE * passed_ms < most_ms:
        return None
    return missing * passed_ms <= risen * most_ms
