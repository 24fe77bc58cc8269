"""Driving Spark's own watermark with the bound that rows carry.

Spark takes its watermark from a column's maximum, so that column is ``watermark``. Two things
keep that from being exact, and are worked around here. Spark marks the column that it
looked at as the event time; the mark, a metadata key, is moved to ``event_time``. And the
optimizer pushes filters below the node that looks at the column, where they would remove the
tick rows, and semi joins below the move of the mark, where they would never free their state: an
observation above both is a barrier that nothing passes.
"""

import shutil
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias
from uuid import uuid4

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source.columns import OPERATORS, named
from spark_source.compatibility import warn_of_available_now
from spark_source.data_source import TidegaugeDataSource
from spark_source.errors import (
    InvalidOptionError,
    LoadError,
    TouchedLoadError,
    WrongPythonError,
)
from spark_source.frames.event_time import with_event_time
from spark_source.frames.late import late_metrics
from spark_source.guard import guarded
from spark_source.options.durations import option_ms
from spark_source.options.load import Options, read_options

_MARKER = "spark.watermarkDelayMs"
_MARKS = _MARKER, OPERATORS
_REDACTION = "spark.sql.redaction.string.regex"
_SHOWN_OPTION = r'(?i)key: "[^"]*(?:token|password|secret)[^"]*"\s+value: "(?:[^"\\]|\\.)*"'
Operators: TypeAlias = Literal["any", "windows", "none"]
_DELAYS = {"any": "1 millisecond", "windows": "0 milliseconds", "none": "0 milliseconds"}


def watermarked(
    df: DataFrame,
    *,
    operators: Operators = "any",
    dedup_horizon: timedelta | str | None = None,
    name: str | None = None,
    event_time: Column | str | None = None,
) -> DataFrame:
    """Make Spark's watermark follow the bound of the source.

    Parameters
    ----------
    df
        An untouched streaming load of ``format("tidegauge")``.
    operators
        ``any`` hands over the bound less 1 ms: no operator drops an event at the bound.
        ``windows`` hands over the bound: a tumbling or sliding window that ends there fires at
        once. Use it where such windows are the first stateful operators. Spark's own operators
        drop event times before 1970-01-01T00:00:00.001Z, so such a time fails the query with
        both, unless ``outOfRange`` is ``null``; `process` and `windowed` take it. ``none`` marks
        no event time: every time passes, and Spark's own windows refuse the frame. Use it where
        nothing above is stateful.
    dedup_horizon
        How long `dropDuplicatesWithinWatermark` remembers; without it that operator is useless,
        since the bound itself has no delay.
    name
        Of the observation, unique in the query. The progress shows under it of each batch: its
        ``rows`` and ``bound``, how many are ``late``, the greatest ``late_by``, and
        ``late_writers``, the late rows by writer.
    event_time
        A column or SQL expression that takes the event time, a timestamp, out of a row, such as
        ``timestamp_millis(bigint(get_json_object(string(value), '$.at')))``, for a load with the
        option ``eventTime=expression``. ``late``, ``late_by``, ``startingTime``, ``endingTime``
        and ``outOfRange`` then apply to it.

    Returns
    -------
    DataFrame
        Columns ``key, event_time, value, segment, offset, watermark, late, late_by, late_below,
        writer, append_time``; on Kafka also ``headers, timestamp``.

    Raises
    ------
    TouchedLoadError
        If something was done to the load before.
    InvalidOptionError
        If only one of ``event_time`` and the option ``eventTime`` says where the time is.
    """
    _refuse_touched(df)
    options = _options_of(df)
    timed = df
    if event_time is not None and options.time_is_expression:
        timed = with_event_time(df, event_time, options)
    elif event_time is not None or options.time_is_expression:
        cure = "event_time= of watermarked() and the option's value 'expression' go together"
        raise InvalidOptionError("eventTime", cure)
    driven = with_bound(
        timed,
        operators=operators,
        dedup_horizon=dedup_horizon,
        as_null=options.out_of_range_as_null,
    )
    observed = driven.observe(
        name or f"tidegauge-{uuid4().hex}",
        F.expr("count_if(NOT tick)").alias("rows"),
        F.max("watermark").alias("bound"),
        *late_metrics(),
    )
    return observed.where("NOT tick").drop("tick")


def with_bound(
    df: DataFrame,
    *,
    operators: str,
    dedup_horizon: timedelta | str | None,
    as_null: bool = False,
) -> DataFrame:
    """Let Spark take its watermark from ``watermark``, and compare ``event_time`` with it.

    Above it an observation has to follow, as the barrier that no filter and no join passes.
    """
    if operators not in _DELAYS:
        raise InvalidOptionError(
            "operators", f"{operators!r} is not one of {', '.join(_DELAYS)}"
        )
    driven = df.withWatermark("watermark", _DELAYS[operators])
    metadata: dict[str, Any] = {OPERATORS: operators}
    if operators != "none":
        horizon = 0 if dedup_horizon is None else option_ms("dedup_horizon", dedup_horizon)
        metadata |= {_MARKER: horizon}
        driven = guarded(driven, as_null=as_null)
    replaced = {
        "event_time": F.col("event_time").alias("event_time", metadata=metadata),
        # Only one column may have the mark.
        "watermark": F.col("watermark").alias("watermark", metadata={}),
    }
    return driven.select(*(replaced.get(name, named(name)) for name in driven.columns))


def plain(df: DataFrame) -> DataFrame:
    """Strip the marks of the event time, before a sink that stores schemas."""
    columns = []
    for field in df.schema.fields:
        metadata = {key: value for key, value in field.metadata.items() if key not in _MARKS}
        columns.append(named(field.name).alias(field.name, metadata=metadata))
    return df.select(*columns)


def read_stream(
    spark: SparkSession,
    *,
    url: str,
    stream: str,
    operators: Operators = "any",
    dedup_horizon: timedelta | str | None = None,
    name: str | None = None,
    event_time: Column | str | None = None,
    token: str | None = None,
    log: str | None = None,
    topic: str | None = None,
    readerGroup: str | None = None,  # noqa: N803 (as Spark names options, from here on)
    startingOffsets: str | None = None,  # noqa: N803
    startingTime: int | str | None = None,  # noqa: N803
    startingCut: str | None = None,  # noqa: N803
    endingTime: int | str | None = None,  # noqa: N803
    endingCut: str | None = None,  # noqa: N803
    allowIncomplete: bool | str | None = None,  # noqa: N803
    maxEventTimePerTrigger: str | None = None,  # noqa: N803
    maxRowsPerTrigger: int | str | None = None,  # noqa: N803
    maxRowsPerPartition: int | str | None = None,  # noqa: N803
    admission: str | None = None,
    minTimeStep: str | None = None,  # noqa: N803
    failOnDataLoss: bool | str | None = None,  # noqa: N803
    outOfRange: str | None = None,  # noqa: N803
    **kafka: str | int | bool,
) -> DataFrame:
    """Load a stream with Spark's watermark following it.

    Parameters
    ----------
    spark
        The session.
    operators, dedup_horizon, name, event_time
        See `watermarked`.
    **kafka
        Settings of Kafka, as ``**{"kafka.bootstrap.servers": "127.0.0.1:9092"}``.
    url, stream
        As all other keywords, options of the source; see `TidegaugeDataSource`. With a token or a password of Kafka's a
        session over Spark Connect redacts these from then on.

    Raises
    ------
    WrongPythonError
        If the session would plan with another Python than this one.
    LoadError
        If the source has no such option, or an option, the stream or the address is wrong.

    Examples
    --------
    >>> rides = read_stream(spark, url="http://127.0.0.1:8470", stream="demo/rides")
    ... # doctest: +SKIP
    """
    check_python(spark)
    given = {
        "url": url,
        "stream": stream,
        "token": token,
        "log": log,
        "topic": topic,
        "readerGroup": readerGroup,
        "startingOffsets": startingOffsets,
        "startingTime": startingTime,
        "startingCut": startingCut,
        "endingTime": endingTime,
        "endingCut": endingCut,
        "allowIncomplete": allowIncomplete,
        "maxEventTimePerTrigger": maxEventTimePerTrigger,
        "maxRowsPerTrigger": maxRowsPerTrigger,
        "maxRowsPerPartition": maxRowsPerPartition,
        "admission": admission,
        "minTimeStep": minTimeStep,
        "failOnDataLoss": failOnDataLoss,
        "outOfRange": outOfRange,
        "eventTime": None if event_time is None else "expression",
    }
    options = kafka | {option: value for option, value in given.items() if value is not None}
    if any(option.lower() == "token" or option.startswith("kafka.") for option in options):
        hide_tokens(spark)
    spark.dataSource.register(TidegaugeDataSource)
    loaded = load(spark, TidegaugeDataSource.name(), options)
    return watermarked(
        loaded,
        operators=operators,
        dedup_horizon=dedup_horizon,
        name=name,
        event_time=event_time,
    )


def load(spark: SparkSession, source: str, options: dict[str, Any]) -> DataFrame:
    """Load a source; report errors of the load without Spark's words around them."""
    warn_of_available_now()
    try:
        loaded = spark.readStream.format(source).options(**options).load()
        _ = loaded.schema  # Spark Connect looks at a load only when it is asked for this.
    except AnalysisException as error:
        reason = (error.getMessageParameters() or {}).get("msg")
        if reason is None:
            raise
        raise LoadError(reason.strip()) from None
    return loaded


def hide_tokens(spark: SparkSession) -> None:
    """Make a session over Spark Connect redact tokens, and what it redacted before.

    Spark leaves tokens out of plans by itself, but a Connect server writes each request into its
    event log and its pages as it came, options included.
    """
    if getattr(spark, "_sc", None) is not None:
        return
    former = spark.conf.get(_REDACTION, "")
    if _SHOWN_OPTION not in (former or ""):
        spark.conf.set(_REDACTION, f"{former}|{_SHOWN_OPTION}" if former else _SHOWN_OPTION)


def check_python(spark: SparkSession) -> None:
    """Raise `WrongPythonError` if a classic session would not use this interpreter."""
    context = getattr(spark, "_sc", None)
    if context is None:
        return
    found = shutil.which(context.pythonExec)
    if found is None or Path(found).parent != Path(sys.executable).parent:
        raise WrongPythonError(context.pythonExec, sys.executable)


def _refuse_touched(df: DataFrame) -> None:
    """Look at the top of the plan, which is the load itself if nothing was done to it."""
    plan = getattr(df, "_plan", None)
    if plan is not None:
        found, expected = type(plan).__name__, "DataSource"
    else:
        found = df._jdf.queryExecution().analyzed().nodeName()  # noqa: SLF001 (no public way)
        expected = "StreamingRelationV2"
    if found != expected:
        raise TouchedLoadError(found)


def _options_of(df: DataFrame) -> Options:
    """Read the options of an untouched load back."""
    plan = getattr(df, "_plan", None)
    if plan is not None:
        return read_options(plan._options)  # noqa: SLF001 (no public way)
    relation = df._jdf.queryExecution().analyzed()  # noqa: SLF001 (no public way)
    return read_options(dict(relation.extraOptions().asCaseSensitiveMap()))
