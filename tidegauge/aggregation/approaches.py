"""The way back: a writer that is out is let in once the others would hardly wait for it."""

from tidegauge.aggregation.clocks import View
from tidegauge.aggregation.writers import Writer

_LEAST_SHARE = 10
"""A pace is judged over this part of the smaller setting at least."""


def waited_at_most_ms(view: View) -> int | None:
    """Tell for how long the others may wait for one that approaches; None: nobody does."""
    settings = (view.timeout_ms, view.limit_ms)
    return min((one for one in settings if one is not None), default=None)


def arrives(writer: Writer, view: View) -> bool:
    """Judge the pace of a writer that is out and was heard since the look before.

    Returns
    -------
    bool
        Whether it is to be live again: at its pace the others would wait for no longer than the
        smaller of the two settings allows. Otherwise its pace is measured anew from here, unless
        it was measured for too short a time.
    """
    most_ms = waited_at_most_ms(view)
    if most_ms is None or writer.time is None or writer.first_time is None:
        return False
    if writer.pace_time is None or writer.pace_ms is None:
        writer.pace_time, writer.pace_ms = writer.first_time, view.now_ms
    risen, passed_ms = writer.time - writer.pace_time, view.now_ms - writer.pace_ms
    if risen <= 0 or _LEAST_SHARE * passed_ms < most_ms or view.watermark is None:
        return False
    missing = view.watermark - writer.time
    if writer.grace and missing * passed_ms <= risen * most_ms:
        return True
    writer.catch_up_ms = missing * passed_ms // risen
    writer.pace_time, writer.pace_ms = writer.time, view.now_ms
    return False
