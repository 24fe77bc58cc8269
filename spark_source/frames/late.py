"""Late rows are data: separated by the source's flag, and kept where their window is open."""

from datetime import timedelta
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import option_ms
from tidegauge.local_days import DAY_MS

if TYPE_CHECKING:
    from spark_source.processing import LocalDayWindows

_DAY_US = DAY_MS * 1_000

_WRITERS_COUNTED = 100
"""So many entries, some kB, a batch may add to Spark's progress."""


def late_metrics() -> list[Column]:
    """Count late rows for an observation, also by writer, and find the greatest lateness.

    Of very many writers those with the most late rows, and the counts are estimates then: an
    observation has to have a bounded state. Late rows of nobody are those of the writer ``""``.
    """
    # An observation takes no FILTER; the others count as null, which has an entry of its own.
    writer = "if(late, coalesce(writer, ''), null)"
    most = (
        f"filter(approx_top_k({writer}, {_WRITERS_COUNTED + 1}), one -> one.item IS NOT NULL)"
    )
    return [
        F.expr("count_if(late)").alias("late"),
        F.max("late_by").alias("late_by"),
        F.expr(f"map_from_entries({most})").alias("late_writers"),
    ]


def split_late(df: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Split rows by the source's flag, for what needs no state.

    Spark's own windows lose late rows whose window is still open by this; see `in_open_window`.

    Parameters
    ----------
    df
        What `read_stream` or `watermarked` returned, or a load.

    Returns
    -------
    tuple of DataFrame
        The rows on time, with those without event time, and the late ones. Two queries over the
        two read the stream twice; to read it once, split inside ``foreachBatch``.

    Examples
    --------
    >>> on_time, late = split_late(read_stream(spark, url=URL, stream="demo/rides"))
    ... # doctest: +SKIP
    """
    return df.where("NOT late"), df.where("late")


def in_open_window(
    df: DataFrame,
    size: str | timedelta,
    *,
    offset: str | timedelta = timedelta(0),
    zone: str | None = None,
) -> DataFrame:
    """Leave out late rows whose window is closed, so that Spark's own windows are exact.

    Spark alone would let a row into a window in the very batch that closes it, and drop it a
    batch later. Without late rows this leaves nothing out.

    Parameters
    ----------
    df
        What `read_stream` or `watermarked` returned.
    size, offset
        Of the tumbling windows, such as ``"10 minutes"`` or a ``timedelta``.
        Rows of sliding windows are in several: make the windows first, with
        ``select("*", window(…))``, and keep ``NOT late OR window.end > late_below``.
    zone
        A time zone such as ``"Europe/Paris"``, for windows of its local days; see `tumbling`.

    Raises
    ------
    InvalidOptionError
        If the size or the offset is no duration, with a zone no whole days, or the zone is none.

    Examples
    --------
    >>> rides = in_open_window(read_stream(spark, url=URL, stream="demo/rides"), "1 hour")
    ... # doctest: +SKIP
    >>> hourly = rides.groupBy(window("event_time", "1 hour")).count()  # doctest: +SKIP
    """
    if zone is not None:
        from spark_source.processing import tumbling  # noqa: PLC0415 (few drivers need it)

        end = _end_of_days(tumbling(size, offset, zone=zone))
    else:
        size_us, offset_us = (
            option_ms(name, value) * 1_000
            for name, value in (("size", size), ("offset", offset))
        )
        if size_us <= 0:
            cure = "is not above 0; say how long, as '1 hour'"
            raise InvalidOptionError("size", f"{size!r} {cure}")
        end = _next_start(F.unix_micros("event_time"), size_us, offset_us)
    return df.where(~F.col("late") | (end > F.unix_micros("late_below")))


def _next_start(time: Column, size: int, offset: int) -> Column:
    """Return the first start of a window after a time, all in microseconds."""
    return time - F.pmod(time - offset, F.lit(size)) + size


def _end_of_days(windows: "LocalDayWindows") -> Column:
    """Return when the window of a row ends, in microseconds, as `LocalDayWindows` has it.

    Spark turns the midnight that clocks skip into the time at which they go on.
    """

    def first_moment(midnight: Column) -> Column:
        shown = F.timestamp_micros(midnight)
        return F.unix_micros(F.to_utc_timestamp(shown, windows.zone))

    shown = F.unix_micros(F.from_utc_timestamp("event_time", windows.zone))
    tomorrow = _next_start(shown, _DAY_US, 0)
    # Where clocks go back over midnight, they show the day before for a while.
    has_begun = first_moment(tomorrow) <= F.unix_micros("event_time")
    today = F.when(has_begun, tomorrow).otherwise(tomorrow - _DAY_US)
    return first_moment(
        _next_start(today, windows.days * _DAY_US, windows.offset_days * _DAY_US)
    )
