"""The pipeline that runs an operator on Spark: pack, keep state by bucket, unpack."""

from collections.abc import Sequence
from functools import partial
from uuid import uuid4

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VariantType,
)

from spark_source.columns import OPERATORS, named, timestamp_cure
from spark_source.errors import (
    InvalidOptionError,
    MissingColumnError,
    NoWatermarkError,
    StateStoreError,
)
from spark_source.guard import unguarded
from spark_source.operators.bucket import BucketHost, HostedOperator
from spark_source.operators.packing import KEY, OFFSET, PACKED, SEGMENT, TIME, pack, unpack

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_UNORDERED = ArrayType, MapType, StructType, VariantType


def host(
    df: DataFrame, operator: HostedOperator, *, key: str, buckets: int | None = None
) -> DataFrame:
    """Run an operator over a stream.

    Parameters
    ----------
    df
        A stream of `read_stream` or `watermarked`, or what was made of it without state. It has
        ``event_time``, ``segment``, ``offset``, the key and what the operator reads.
    operator
        What runs over the buckets.
    key
        The column by which rows are divided over buckets.
    buckets
        How many; fixed by the first start of a query. Two a shuffle partition by default.

    Returns
    -------
    DataFrame
        `HostedOperator.output`. What is counted is observed under a name of its own.

    Raises
    ------
    InvalidOptionError
        If the frame is no stream, or the key or the number of buckets is none.
    MissingColumnError
        If the frame lacks a column.
    NoWatermarkError
        If nothing drives Spark's watermark.
    StateStoreError
        If the session keeps state elsewhere than in RocksDB.
    """
    _check(df, key, operator.columns)
    _check_state_store(df)
    if buckets is not None and (not isinstance(buckets, int) or buckets < 1):
        raise InvalidOptionError("buckets", f"{buckets!r} is not an integer of at least 1")
    df = unguarded(df)
    packed = _rows(df, key, operator.columns).mapInArrow(
        partial(pack, buckets=buckets, combine=operator.combine), PACKED
    )
    names = [*operator.counted, *operator.held]
    # By how many ms the bound is above Spark's watermark; 0 is sound for any stream.
    ahead = int(df.schema["event_time"].metadata.get(OPERATORS) == "any")
    kept = packed.groupBy("bucket").transformWithState(
        BucketHost(operator, buckets=buckets, ahead=ahead),
        StructType(
            [
                StructField("out", BinaryType()),
                *(StructField(each, LongType()) for each in names),
            ]
        ),
        "Append",
        "EventTime",
    )
    observed = kept.observe(
        f"tidegauge-{operator.name}-{uuid4().hex}", *(F.sum(each).alias(each) for each in names)
    )
    return observed.select("out").mapInArrow(unpack, operator.output)


def with_segment(df: DataFrame) -> DataFrame:
    """Give rows of Spark's Kafka source their segment, which is their partition."""
    if "segment" in df.columns or "partition" not in df.columns:
        return df
    return df.withColumn("segment", F.col("partition").cast("long"))


def check_columns(df: DataFrame, columns: Sequence[str]) -> None:
    """Raise `MissingColumnError` if a stream lacks a column."""
    for column in columns:
        if column not in df.columns:
            raise MissingColumnError(column, df.columns)


def _rows(df: DataFrame, key: str, columns: Sequence[str]) -> DataFrame:
    """Name what is packed; without the marker, since Spark would drop late rows by it."""
    time = F.unix_micros("event_time")
    placed = (
        (named(key), KEY),
        (time, TIME),
        (F.col("segment"), SEGMENT),
        (F.col("offset"), OFFSET),
    )
    packed = [*placed, *((df[each], each) for each in columns)]
    return df.select(*(column.alias(name, metadata={}) for column, name in packed))


def _check(df: DataFrame, key: str, columns: Sequence[str]) -> None:
    if not df.isStreaming:
        raise InvalidOptionError("df", "it is not a stream; begin with read_stream(…)")
    if not has_watermark(df):
        raise NoWatermarkError
    check_columns(df, ["event_time", "segment", "offset", key, *columns])
    schema = df.schema
    found = schema["event_time"].dataType
    if not isinstance(found, TimestampType):
        cure = timestamp_cure(found)
        problem = f"its column event_time is {found.simpleString()}; {cure} before the operator"
        raise InvalidOptionError("df", problem)
    of_keys = schema[key].dataType
    kind = of_keys.simpleString()
    if isinstance(of_keys, _UNORDERED):
        raise InvalidOptionError(
            "key", f"column {key!r} is {kind}, and keys have an order; take a field of it"
        )
    if isinstance(of_keys, StringType) and of_keys.collation != "UTF8_BINARY":
        cure = (
            "keys are compared by their bytes; use a column COLLATE UTF8_BINARY, or its lower()"
        )
        raise InvalidOptionError("key", f"column {key!r} is {kind}; {cure}")


def has_watermark(df: DataFrame) -> bool:
    """Return whether something drives Spark's watermark in a plan."""
    plan = getattr(df, "_plan", None)
    if plan is not None:
        return "with_watermark" in str(plan.to_proto(df.sparkSession.client))
    analyzed = df._jdf.queryExecution().analyzed()  # noqa: SLF001 (no public way)
    return "EventTimeWatermark" in analyzed.toString()


def _check_state_store(df: DataFrame) -> None:
    provider = df.sparkSession.conf.get(_PROVIDER, "")
    if "RocksDB" not in (provider or ""):
        raise StateStoreError(provider)
