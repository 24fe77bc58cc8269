"""Windows with allowed lateness, of a DataFrame."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    LongType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from spark_source.compatibility import arrow_schema
from spark_source.errors import InvalidOptionError, MissingColumnError
from spark_source.operators import (
    KEY,
    OFFSET,
    SEGMENT,
    TIME,
    HostedOperator,
    Outputs,
    host,
    with_segment,
)
from spark_source.operators.aggregates import BUILT_INS
from spark_source.operators.outputs import LATE
from spark_source.operators.window_rows import LATE_BELOW, WindowSchemas
from spark_source.operators.windows import WindowOperator
from spark_source.options.durations import option_ms
from spark_source.processing import WindowSettings
from spark_source.processing.aggregates import Aggregate, BuiltIn
from spark_source.processing.assigners import Assigner
from spark_source.processing.windowed import Accumulation, Trigger

RESULT = "result"

_OF_AGGREGATES = "column", "zero", "add", "merge", "result"
_OF_WINDOWS = "window", "kind", "pane", "pane_index"
_OF_LATE_ROWS = "event_time", "segment", "offset", "late_by"
_WINDOW = {"spark.timeWindow": True}
_NO_TIME = timedelta()

_ORDERED = (
    NumericType,
    StringType,
    BinaryType,
    BooleanType,
    DateType,
    TimestampType,
    TimestampNTZType,
)


def windowed(
    df: DataFrame,
    assigner: Assigner,
    *,
    key: str,
    aggregates: Mapping[str, Aggregate | BuiltIn],
    allowed_lateness: str | timedelta = _NO_TIME,
    accumulation: Accumulation = "accumulating",
    trigger: Trigger = "on_time",
    buckets: int | None = None,
) -> Outputs:
    """Aggregate rows by key and window; late rows correct windows within the allowed lateness.

    A window fires when the bound has reached its end, and is kept for so long as lateness is
    allowed: rows that come for it meanwhile make it fire again. Rows all of whose windows are
    gone are an output of their own.

    Parameters
    ----------
    df
        A stream of `read_stream`, `watermarked` or `follow`, or what was made of one without
        state; it keeps ``event_time``, ``segment`` (or Kafka's ``partition``) and ``offset``. If
        it keeps ``late_below`` too, rows are merged before they are shuffled.
    assigner
        `tumbling`, `sliding` or `session`.
    key
        The column that rows are grouped by; its values may be null. As in Spark there is one
        zero and one NaN.
    aggregates
        By the names of their columns in the output, for example ``{"n": count()}``; see
        `spark_source.processing.aggregates`. One of your own has a method each for ``zero``,
        ``add``, ``merge`` and ``result``, and says its type as ``output = "bigint"``. Timestamps
        reach it in UTC, whatever the zone of the session.
    allowed_lateness
        For example ``"10 minutes"``; rows that come later than that are late.
    accumulation
        Whether a firing says all rows so far (``accumulating``), those not said yet
        (``discarding``), or all and first takes back what was said before
        (``accumulating_and_retracting``).
    trigger
        ``early`` lets windows that are open fire in each micro-batch that changes them.
    buckets
        How many the keys are divided over; fixed by the first start of a query. Two for each
        shuffle partition by default, and at least 16 for each if a task lacks memory.

    Returns
    -------
    Outputs
        ``output()`` has the key, ``window`` with ``start`` and ``end``, the aggregates, ``kind``
        (``result``, ``retraction``), ``pane`` (``early``, ``on_time``, ``late``) and
        ``pane_index``. ``output("late")`` has the key, ``event_time``, ``segment``, ``offset``,
        the columns that are aggregated, and ``late_by`` in ms. The frame of both has a struct
        for each, ``result`` and ``late``.

    Raises
    ------
    InvalidOptionError
        If an option is wrong, or an aggregate is none that its column can have.
    MissingColumnError
        If the DataFrame has not what is needed.
    NoWatermarkError
        If nothing drives its watermark.
    StateStoreError
        If the session does not keep state in RocksDB.
    """
    _check_kinds(assigner, aggregates)
    columns = list(dict.fromkeys(one.column for one in aggregates.values() if one.column))
    _check_names(df.columns, key, columns, aggregates)
    settings = WindowSettings(
        assigner=assigner,
        aggregates=dict(aggregates),
        columns=columns,
        lateness_ms=option_ms("allowed_lateness", allowed_lateness),
        accumulation=accumulation,
        trigger=trigger,
    )
    df = with_segment(df)
    operator = _operator(df.schema, key, settings)
    frame = host(df, operator, key=key, buckets=buckets)
    return Outputs(frame, {name: [f"{name}.*"] for name in (RESULT, LATE)})


def _check_kinds(assigner: object, aggregates: Mapping[str, object]) -> None:
    """Refuse at once what would look like a failure on an executor."""
    if not isinstance(assigner, Assigner):
        cure = "makes no windows; pass tumbling('1 hour'), sliding(…) or session(…)"
        raise InvalidOptionError("assigner", f"{assigner!r} {cure}")
    for name, one in aggregates.items():
        of_user = all(hasattr(one, part) for part in _OF_AGGREGATES)
        if not (isinstance(one, BuiltIn) or of_user):
            cure = "is not an aggregate; pass one such as count() or mean('delay')"
            raise InvalidOptionError("aggregates", f"{name!r}: {one!r} {cure}")


def _check_names(
    found: list[str],
    key: str,
    columns: list[str],
    aggregates: Mapping[str, Aggregate | BuiltIn],
) -> None:
    for column in columns:
        if "." in column:
            cure = "has a dot; make one without, with withColumn()"
            raise InvalidOptionError("aggregates", f"the column {column!r} {cure}")
    for column in (key, *columns):
        if column not in found:
            raise MissingColumnError(column, found)
    if not aggregates:
        raise InvalidOptionError("aggregates", 'there are none; {"n": count()} counts rows')
    if key in (*_OF_WINDOWS, *_OF_LATE_ROWS):
        raise InvalidOptionError("key", f"the output has another column {key!r}; rename it")
    for name in aggregates:
        if name in (key, *_OF_WINDOWS):
            raise InvalidOptionError(
                "aggregates", f"the output has another column {name!r}; rename it"
            )


def _operator(schema: StructType, key: str, settings: WindowSettings) -> HostedOperator:
    """Describe the operator."""
    output = _output(schema, key, settings)
    shown = _shown(settings, key)
    schemas = WindowSchemas(_packed(schema, key, settings), shown, arrow_schema(output))
    promised = [LATE_BELOW] if LATE_BELOW in schema.names else []
    return HostedOperator(
        name="windowed",
        open=partial(WindowOperator, settings, schemas),
        combine=WindowOperator(settings, schemas).combine,
        columns=[*settings.columns, *promised],
        output=output,
        counted=["late", "partially_late"],
        held=["windows"],
    )


def _packed(schema: StructType, key: str, settings: WindowSettings) -> pa.Schema:
    places = [StructField(name, LongType()) for name in (TIME, SEGMENT, OFFSET)]
    columns = [StructField(name, schema[name].dataType) for name in settings.columns]
    return arrow_schema(StructType([StructField(KEY, schema[key].dataType), *places, *columns]))


def _shown(settings: WindowSettings, key: str) -> list[str]:
    """Name the columns that late rows show besides those that all have."""
    return [name for name in settings.columns if name not in (key, *_OF_LATE_ROWS)]


def _output(schema: StructType, key: str, settings: WindowSettings) -> StructType:
    """Name and type the columns that come out of the operator."""
    window = StructType().add("start", TimestampType()).add("end", TimestampType())
    # With the marker `window_time` takes the column for one of Spark's own.
    result = StructType().add(key, schema[key].dataType).add("window", window, metadata=_WINDOW)
    for name, aggregate in settings.aggregates.items():
        result.add(name, _result_type(name, aggregate, schema))
    result.add("kind", StringType()).add("pane", StringType()).add("pane_index", LongType())
    late = StructType().add(key, schema[key].dataType).add("event_time", TimestampType())
    late.add("segment", LongType()).add("offset", LongType())
    for name in _shown(settings, key):
        late.add(name, schema[name].dataType)
    late.add("late_by", LongType())
    return StructType().add("output", StringType()).add(RESULT, result).add(LATE, late)


def _result_type(name: str, aggregate: Aggregate | BuiltIn, schema: StructType) -> DataType:
    """Return the type of an aggregate's results, as SQL has it."""
    if not isinstance(aggregate, BuiltIn):
        return _own_type(name, aggregate)
    built_in = BUILT_INS[aggregate.kind]
    if aggregate.column is None:
        return built_in.result(NullType())
    value_type = schema[aggregate.column].dataType
    if not isinstance(value_type, NumericType if built_in.of_numbers else _ORDERED):
        raise InvalidOptionError(
            "aggregates",
            f"{name!r} is the {aggregate.kind} of column {aggregate.column!r}, which is "
            f"{value_type.simpleString()}; cast it to a type that has one",
        )
    return built_in.result(value_type)


def _own_type(name: str, aggregate: Aggregate) -> DataType:
    declared = getattr(aggregate, "output", None)
    if not isinstance(declared, str):
        raise InvalidOptionError(
            "aggregates",
            f"{name!r} does not say its type; give {type(aggregate).__name__} an attribute such "
            'as output = "bigint"',
        )
    return DataType.fromDDL(declared)
