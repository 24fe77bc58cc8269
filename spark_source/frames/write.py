"""Writing a query's output into a stream."""

from datetime import timedelta
from typing import Any, Literal, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegralType,
    StringType,
    TimestampType,
)

from spark_source.checkpoints.checkpoint import WATERMARK_POLICY
from spark_source.compatibility import is_stateful
from spark_source.data_source import TidegaugeDataSource
from spark_source.errors import (
    GuessedWatermarkError,
    InvalidOptionError,
    UnclearDelayError,
)
from spark_source.following.tick_source import TickDataSource
from spark_source.frames.follow import TABLES, streaming_sources
from spark_source.frames.watermark import check_python, hide_tokens
from spark_source.operators import has_watermark
from spark_source.options.durations import option_ms
from spark_source.options.sink import Place, read_place
from spark_source.source.starts import first_client
from tidegauge.errors import TidegaugeError

Expression: TypeAlias = str | Column
"""A column, or SQL that makes one."""

_OURS = TidegaugeDataSource.name(), TickDataSource.name()


def as_events(
    df: DataFrame,
    *,
    key: Expression = "key",
    event_time: Expression = "event_time",
    value: Expression | None = None,
) -> DataFrame:
    """Make the events of a stream of a frame's rows, as ``format("tidegauge")`` writes them.

    Parameters
    ----------
    df
        Any frame; what marks the event time in it is not handed on.
    key
        Routes the event; written as a string, never null: ``"coalesce(taxi, '')"``.
    event_time
        A timestamp, whose microseconds are floored, or ms.
    value
        A string or binary; without it the JSON of the row's columns.

    Returns
    -------
    DataFrame
        Columns ``key``, ``event_time`` and ``value``.

    Raises
    ------
    InvalidOptionError
        If the event time or the value is of another type.

    Examples
    --------
    >>> as_events(hourly, key="origin", event_time="window.end")  # doctest: +SKIP
    """
    body = F.to_json(F.struct("*")) if value is None else _column(value)
    events = df.select(
        _column(key).cast("string").alias("key", metadata={}),
        _column(event_time).alias("event_time", metadata={}),
        body.alias("value", metadata={}),
    )
    kinds = {field.name: field.dataType for field in events.schema.fields}
    _check(
        "event_time", kinds["event_time"], (TimestampType, IntegralType), "a timestamp, or ms"
    )
    _check("value", kinds["value"], (StringType, BinaryType), "a string or binary")
    return events


def write_stream(
    df: DataFrame,
    *,
    url: str,
    stream: str,
    checkpoint: str,
    key: Expression = "key",
    event_time: Expression = "window.end",
    value: Expression | None = None,
    output_delay: timedelta | str | None = None,
    late_panes: Literal["flagged"] | None = None,
    seal: bool = False,
    trigger: str | None = None,
    output_mode: Literal["append", "update"] = "append",
    name: str | None = None,
    token: str | None = None,
) -> StreamingQuery:
    """Start a query that writes a streaming frame into a stream, each row exactly once.

    Each batch is one transaction of the target, with the time below which the query will emit
    nothing: its watermark is exact as that of the source is. A query with state notes Spark's
    watermark less ``output_delay``; one without, the bound that it has read up to.

    Parameters
    ----------
    df
        A streaming frame. Sessions need a source with ``operators="any"``.
    url, stream, token
        The target, which is there already; tokens need the role to write, with ``seal`` to
        operate.
    checkpoint
        Of the query: where it goes on, and by what its batches are numbered.
    key, event_time, value
        See `as_events`.
    output_delay
        How far below Spark's watermark rows may be that the query emits: nothing for the end of
        a window, or a millisecond before it; the allowed lateness of `windowed`, so that
        corrections are not late; the window's size for its start; for joins the range of their
        condition. Once noted, time does not go back: a longer one needs another checkpoint.
    late_panes
        ``flagged`` where corrections shall not hold the target back, but come as late rows.
    seal
        Say to the target when what the query reads has ended. It is sealed once all its writers
        have ended, at least ``min_writers`` of them.
    trigger
        ``availableNow``, or how often, such as ``10 seconds``; as fast as possible without it.
    output_mode
        Of the query.
    name
        Of the query.

    Returns
    -------
    StreamingQuery
        Running.

    Raises
    ------
    GuessedWatermarkError
        If a query with state reads something else than streams of ours and topics that are
        followed, or has the greatest of several watermarks; over Spark Connect its first batch
        with a watermark fails.
    UnclearDelayError
        If the frame has a column ``pane``, and neither ``output_delay`` nor ``late_panes`` says
        what becomes of corrections.
    InvalidOptionError
        If a value is none.
    UnknownStreamError
        If there is no such stream; over Spark Connect the query fails.

    Examples
    --------
    >>> write_stream(
    ...     hourly, url=URL, stream="demo/hourly", key="origin", seal=True, checkpoint=PATH
    ... )  # doctest: +SKIP
    """
    if not df.isStreaming:
        cure = "is not a stream; write it with as_events(df).write.format('tidegauge')"
        raise InvalidOptionError("df", cure)
    delay_ms = delay_of(output_delay, late_panes, corrects="pane" in df.columns)
    refuse_guess(df)
    spark = df.sparkSession
    check_python(spark)
    check_target(spark, read_place(url=url, stream=stream, token=token))
    if token is not None:
        hide_tokens(spark)
    spark.dataSource.register(TidegaugeDataSource)
    events = as_events(df, key=key, event_time=event_time, value=value)
    options = {
        "url": url,
        "stream": stream,
        "checkpointLocation": checkpoint,
        "outputDelay": f"{delay_ms} ms",
        "seal": "true" if seal else "false",
    }
    if token is not None:
        options["token"] = token
    writer = events.writeStream.format(TidegaugeDataSource.name()).outputMode(output_mode)
    return triggered(writer, name, trigger).options(**options).start()


def check_target(spark: SparkSession, place: Place) -> None:
    """Raise what is wrong with a target, before a query fails by it with pages of Spark's own.

    Over Spark Connect the query does: a client there need not reach the service.
    """
    if getattr(spark, "_sc", None) is None:
        return
    try:
        with first_client(place) as client:
            client.describe()
    except TidegaugeError as error:
        # Where in the client it came up says nothing.
        raise error.with_traceback(None) from None


def triggered(
    writer: DataStreamWriter, name: str | None, trigger: str | None
) -> DataStreamWriter:
    """Give a query its name and its trigger."""
    if name is not None:
        writer = writer.queryName(name)
    if trigger == "availableNow":
        return writer.trigger(availableNow=True)
    return writer if trigger is None else writer.trigger(processingTime=trigger)


def refuse_guess(df: DataFrame, *, strictly: bool = False) -> None:
    """Raise `GuessedWatermarkError` if the plan shows it; none is seen over Spark Connect.

    Strictly also of a query without state.
    """
    if getattr(df, "_plan", None) is not None:
        return
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 (no public way)
    if not strictly and not (has_watermark(df) and is_stateful(plan)):
        return
    sources = streaming_sources(df)
    ticks = [options for name, options in sources if name == TickDataSource.name()]
    topics = {one["topic"] for one in ticks if "topic" in one}
    tables = sum("table" in one for one in ticks)
    for name, options in sources:
        # What a pattern subscribes to is seen in the first batch only, and which table is read.
        subscribed = options.get("subscribe")
        is_followed = name == "kafka" and topics and subscribed in {None, *topics}
        is_followed = is_followed or (name in TABLES and tables >= _number(TABLES, sources))
        if name not in _OURS and not is_followed:
            problem = f"it reads a stream of {name!r}"
            cure = "load that with read_stream(), or follow() its topic or its table"
            raise GuessedWatermarkError(problem, cure)
    policy = df.sparkSession.conf.get(WATERMARK_POLICY)
    if policy != "min":
        problem = f"it is the {policy} of several"
        raise GuessedWatermarkError(problem, f"set {WATERMARK_POLICY} to 'min'")


def _number(names: tuple[str, ...], sources: list[tuple[str, Any]]) -> int:
    return sum(name in names for name, _ in sources)


def delay_of(
    output_delay: timedelta | str | None, late_panes: str | None, *, corrects: bool
) -> int:
    """Return how far below the watermark rows may be, which a frame with corrections has to say."""
    if corrects and output_delay is None and late_panes is None:
        raise UnclearDelayError
    if output_delay is not None and late_panes is not None:
        raise InvalidOptionError(
            "late_panes", "cannot be combined with output_delay; choose one"
        )
    if late_panes not in {None, "flagged"}:
        raise InvalidOptionError("late_panes", f"{late_panes!r} is not 'flagged'")
    delay_ms = 0 if output_delay is None else option_ms("output_delay", output_delay)
    if delay_ms < 0:
        raise InvalidOptionError("output_delay", f"{delay_ms} ms is below 0")
    return delay_ms


def _column(given: Expression) -> Column:
    return F.expr(given) if isinstance(given, str) else given


def _check(
    option: str, found: DataType, kinds: tuple[type[DataType], ...], expected: str
) -> None:
    if not isinstance(found, kinds):
        problem = f"is of type {found.simpleString()}; pass {expected}"
        raise InvalidOptionError(option, problem)
