"""The way back: a writer that is out is let in once the others would hardly wait for it."""

from tidegauge.aggregation.clocks import View
from tidegauge.aggregation.pace import pace_suffices
from tidegauge.aggregation.writers import Writer


def waited_at_most_ms(view: View) -> int | None:
    """Return for how long the others may wait for one that approaches; None: nobody does."""
    settings = (view.timeout_ms, view.limit_ms)
    return min((setting for setting in settings if setting is not None), default=None)


def arrives(writer: Writer, view: View) -> bool:
    """Return whether the pace of a writer suffices that is out and reported since the latest look.

    Returns
    -------
    bool
        Whether it is to be live again: at its pace the others would wait for no longer than the
        smaller of the two settings allows. Otherwise its pace is measured anew from here, unless
        it was measured for too short a time.
    """
    most_ms, noted, life = waited_at_most_ms(view), writer.noted, writer.life
    if most_ms is None or noted.time is None or noted.first_time is None:
        return False
    if life.pace_time is None or life.pace_ms is None:
        life.pace_time, life.pace_ms = noted.first_time, view.now_ms
    if view.watermark is None:
        return False
    risen, passed_ms = noted.time - life.pace_time, view.now_ms - life.pace_ms
    missing = view.watermark - noted.time
    suffices = pace_suffices(missing=missing, risen=risen, passed_ms=passed_ms, most_ms=most_ms)
    if suffices is None:
        return False
    if life.grace and suffices:
        return True
    life.catch_up_ms = missing * passed_ms // risen
    life.pace_time, life.pace_ms = noted.time, view.now_ms
    return False
