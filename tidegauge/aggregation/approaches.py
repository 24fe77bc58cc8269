"""The way back: a writer that is out is let in once the others would hardly wait for it."""

from tidegauge.aggregation.clocks import View
from tidegauge.aggregation.pace import pace_suffices
from tidegauge.aggregation.writers import Writer


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
    if view.watermark is None:
        return False
    risen, passed_ms = writer.time - writer.pace_time, view.now_ms - writer.pace_ms
    missing = view.watermark - writer.time
    suffices = pace_suffices(missing=missing, risen=risen, passed_ms=passed_ms, most_ms=most_ms)
    if suffices is None:
        return False
    if writer.grace and suffices:
        return True
    writer.catch_up_ms = missing * passed_ms // risen
    writer.pace_time, writer.pace_ms = writer.time, view.now_ms
    return False
