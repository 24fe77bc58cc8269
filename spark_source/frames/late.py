"""Late rows are data: told apart by the source's flag, and kept where their window is open."""

from datetime import timedelta

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.errors import InvalidOptionError
from spark_source.options.durations import option_ms

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
    df: DataFrame, size: str | timedelta, *, offset: str | timedelta = timedelta(0)
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

    Raises
    ------
    InvalidOptionError
        If the size or the offset is no duration.

    Examples
    --------
    >>> rides = in_open_window(read_stream(spark, url=URL, stream="demo/rides"), "1 hour")
    ... # doctest: +SKIP
    >>> hourly = rides.groupBy(window("event_time", "1 hour")).count()  # doctest: +SKIP
    """
    size_us, offset_us = option_ms("size", size) * 1_000, option_ms("offset", offset) * 1_000
    if size_us <= 0:
        raise InvalidOptionError("size", f"{size!r} is not above 0; say how long, as '1 hour'")
    time = F.unix_micros("event_time")
    end = time - F.pmod(time - offset_us, F.lit(size_us)) + size_us
    return df.where(~F.col("late") | (end > F.unix_micros("late_below")))
