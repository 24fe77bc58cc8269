"""Process functions, of a DataFrame."""

from collections.abc import Sequence
from copy import deepcopy
from functools import partial

from pyspark.errors import ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, LongType, StringType, StructType

from spark_source.compatibility import arrow_schema
from spark_source.errors import InvalidOptionError
from spark_source.operators import HostedOperator, Outputs, check_columns, host, with_segment
from spark_source.operators.outputs import LATE
from spark_source.operators.processors import MAIN, HostedProcessor
from spark_source.processing import EventTimeProcessor, ProcessOperator
from spark_source.processing.process import AtEnd


def process(
    df: DataFrame,
    processor: EventTimeProcessor,
    *,
    key: str = "key",
    columns: Sequence[str] = ("value",),
    buckets: int | None = None,
    at_end: AtEnd = "drain",
) -> Outputs:
    """Call a processor with the events of each key in the order of event time.

    An event is handled once the bound is above its time, so that none can come before it any
    more. Events of one millisecond come by their microseconds, those of one time by segment and
    offset; if two of different streams have the same, by what their columns show as text. An event
    that comes below the bound is not handled but put out as late.

    Timestamps reach the processor in UTC, whatever the zone of the session: ``event.x.hour`` is
    that of UTC. Keys are equal as in Spark: there is one zero and one NaN.

    Parameters
    ----------
    df
        A stream of `read_stream`, `watermarked` or `follow`, a union of such, or what was made of
        one without state. In place of ``segment`` it may have Kafka's ``partition``.
    processor
        Of the user.
    key
        The column of the key; its values may be null.
    columns
        What events have besides time, segment and offset.
    buckets
        How many the keys are divided over; fixed by the first start of a query. Two for each
        shuffle partition by default, and at least 16 for each if a task lacks memory.
    at_end
        Whether timers fire at the end of time (``drain``) or stay pending (``suspend``).

    Returns
    -------
    Outputs
        ``output()`` has the columns of the processor's ``output``, ``output(name)`` those of a
        side output, and ``output("late")`` the key, ``event_time``, ``segment``, ``offset``, the
        columns, and ``late_by`` in ms.

    Raises
    ------
    MissingColumnError
        If the DataFrame has not what is needed.
    NoWatermarkError
        If nothing drives its watermark.
    StateStoreError
        If the session does not keep state in RocksDB.
    InvalidOptionError
        If an option is wrong.

    Examples
    --------
    >>> changes = process(rides, OfflineDevices(), key="key", columns=["value"]).output()
    ... # doctest: +SKIP
    """
    if not isinstance(processor, EventTimeProcessor):
        cure = "is not an EventTimeProcessor; pass an instance of one, such as OfflineDevices()"
        raise InvalidOptionError("processor", f"{processor!r} {cure}")
    # Here, too: on an executor its errors would come from a query that has died. It opens a
    # copy, since the user's own is sent as it is.
    ProcessOperator(deepcopy(processor), columns=columns, at_end=at_end)
    df = with_segment(df)
    output = _output(df, processor, key, columns)
    open_operator = partial(
        HostedProcessor,
        processor,
        columns=tuple(columns),
        at_end=at_end,
        schema=arrow_schema(output),
    )
    operator = HostedOperator(
        name="process",
        open=open_operator,
        columns=columns,
        output=output,
        counted=["late"],
        held=["keys", "buffered", "timers"],
    )
    frame = host(df, operator, key=key, buckets=buckets)
    return Outputs(frame, {name: [f"{name}.*"] for name in output.names[1:]})


def _output(
    df: DataFrame, processor: EventTimeProcessor, key: str, columns: Sequence[str]
) -> StructType:
    """Name the columns: which output a row is of, and one with the row for each output."""
    late_columns = [key, "event_time", "segment", "offset", *columns]
    check_columns(df, late_columns)
    if len(set(late_columns)) < len(late_columns):
        raise InvalidOptionError("columns", "key, event_time, segment and offset come anyway")
    late = StructType([df.schema[name] for name in late_columns]).add("late_by", LongType())
    sides = processor.side_outputs
    output = StructType().add("output", StringType())
    if processor.output:
        output.add(MAIN, _declared(processor, "output", processor.output))
    for name, columns_of_side in sides.items():
        if name in {"output", MAIN, LATE}:
            raise InvalidOptionError("side_outputs", f"{name!r} is taken; rename the output")
        output.add(name, _declared(processor, f"side_outputs[{name!r}]", columns_of_side))
    return output.add(LATE, late)


def _declared(processor: EventTimeProcessor, attribute: str, columns: str) -> DataType:
    try:
        return StructType.fromDDL(columns)
    except ParseException as error:
        declares = f"{type(processor).__name__} declares the columns {columns!r}"
        reason = str(error).strip().splitlines()[0]
        cure = "write them as 'device string, at timestamp'"
        problem = f"{declares}, which Spark cannot read: {reason}; {cure}"
        raise InvalidOptionError(attribute, problem) from None
