"""The columns of a row, and what else Spark's plans say of them."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from spark_source.options.load import Options
from spark_source.options.times import GREATEST_TIME

SCHEMA = StructType(
    [
        StructField("key", StringType()),
        StructField("event_time", TimestampType()),
        StructField("value", BinaryType()),
        StructField("segment", LongType()),
        StructField("offset", LongType()),
        StructField("watermark", TimestampType()),
        StructField("late", BooleanType()),
        StructField("tick", BooleanType()),
        StructField("late_by", LongType()),
        StructField("late_below", TimestampType()),
        StructField("writer", StringType()),
        StructField("append_time", TimestampType()),
    ]
)
_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
KAFKA_SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        *SCHEMA.fields[1:],
        StructField("headers", ArrayType(_HEADER)),
        StructField("timestamp", TimestampType()),
    ]
)

OPERATORS = "tidegauge.operators"
"""In the metadata of ``event_time``: the mode in which `watermarked` drives Spark's watermark."""

LAST_WATERMARK = GREATEST_TIME - 1
"""At or above it is the end of time: `watermarked` may hand over the bound less 1 ms."""

# A cast alone would take the session's zone, which another session may have otherwise.
_TIMESTAMP_CURES = {
    "timestamp_ntz": "name its zone: event_time=\"CAST(at || ' Europe/Paris' AS timestamp)\"",
    "date": "name its zone: event_time=\"CAST(at || ' 00:00:00 Europe/Paris' AS timestamp)\"",
}


def schema_of(options: Options) -> StructType:
    """Name the columns of a row; a topic has more than the embedded log."""
    return SCHEMA if options.kafka is None else KAFKA_SCHEMA


def named(name: str) -> Column:
    """Return the column of a name, which may have dots in it."""
    return F.col(f"`{name.replace('`', '``')}`")


def name_in(schema: StructType, sql: str) -> str | None:
    """Return the column that SQL is, or the field of one, as a schema spells it; None if it is more."""
    names = list[str]()
    kind: DataType = schema
    for part in sql.split("."):
        fields = kind.fields if isinstance(kind, StructType) else []
        same = (field for field in fields if field.name.lower() == part.lower())
        # In a session that regards case, the one that is spelled alike.
        field = min(same, key=lambda field: field.name != part, default=None)
        if field is None:
            return None
        names.append(field.name)
        kind = field.dataType
    return ".".join(names)


def timestamp_cure(found: DataType) -> str:
    """Say how an event time of another type becomes a timestamp."""
    return _TIMESTAMP_CURES.get(found.simpleString(), "cast it to timestamp")
