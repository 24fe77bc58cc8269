"""Event times that are inside the value: what the source does with its own, done above the load."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.types import TimestampType

from spark_source.columns import timestamp_cure
from spark_source.errors import OUT_OF_RANGE, InvalidOptionError
from spark_source.options.load import Options
from spark_source.options.times import GREATEST_TIME, LEAST_TIME


def with_event_time(df: DataFrame, expression: Column | str, options: Options) -> DataFrame:
    """Take the event time of a load from an expression, and judge rows by it.

    Rows that a bounded read did not ask for are left out.

    Raises
    ------
    InvalidOptionError
        If the expression gives no timestamp.
    """
    wanted = F.expr(expression) if isinstance(expression, str) else expression
    timed = timed_by(df, F.when(~F.col("tick"), wanted))
    timed = timed.withColumn("event_time", _within_range(options))
    late = F.expr("coalesce(event_time < late_below, false)")
    gap = F.unix_millis("late_below") - F.unix_millis("event_time")
    judged = timed.withColumns({"late": late, "late_by": F.when(late, gap)})
    return _within_times(judged, options)


def timed_by(df: DataFrame, time: Column) -> DataFrame:
    """Give a frame the column ``event_time``, in place of one that it has.

    Raises
    ------
    InvalidOptionError
        If it is no timestamp.
    """
    found = df.select(time.alias("event_time")).schema["event_time"].dataType
    if found != TimestampType():
        problem = f"is of type {found.simpleString()}; {timestamp_cure(found)}"
        raise InvalidOptionError("event_time", problem)
    return df.withColumn("event_time", time)


def _within_range(options: Options) -> Column:
    """Refuse times that Spark's watermark cannot be, or make them null."""
    time = F.col("event_time")
    is_held = time.isNull() | F.unix_millis(time).between(LEAST_TIME, GREATEST_TIME)
    if options.out_of_range_as_null:
        return F.when(is_held, time)
    words = OUT_OF_RANGE.format(event_time="%d", offset="%d", segment="%d")
    message = F.format_string(words, F.unix_millis(time), F.col("offset"), F.col("segment"))
    return F.when(is_held, time).otherwise(F.raise_error(message).cast("timestamp"))


def _within_times(df: DataFrame, options: Options) -> DataFrame:
    """Keep what a bounded read asked for, rows without a time, and ticks, which have none."""
    time = F.unix_millis("event_time")
    if options.starting_time is not None:
        df = df.where(time.isNull() | (time >= options.starting_time))
    if options.ending_time is not None:
        df = df.where(time.isNull() | (time < options.ending_time))
    return df
