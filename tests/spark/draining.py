"""Queries that read what is there and end, on each version of Spark."""

from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tests.spark.drivers import PATIENCE_S

DRAINS = tuple(map(int, pyspark.__version__.split(".")[:2])) >= (4, 2)
"""Before 4.2 ``availableNow`` ends after one batch."""


def drain(writer: DataStreamWriter) -> StreamingQuery:
    """Run a query to the end of what is there: as the warning before 4.2 says."""
    if DRAINS:
        writer = writer.trigger(availableNow=True)
    query = writer.start()
    finish(query)
    return query


def finish(query: StreamingQuery) -> None:
    """Wait for a query that was started to drain what is there."""
    try:
        if DRAINS:
            assert query.awaitTermination(PATIENCE_S)
        else:
            query.processAllAvailable()
    finally:
        query.stop()


def rows_of(df: DataFrame, checkpoint: str) -> list[Any]:
    """Drain a query into a table, which has the name of its checkpoint, and read it in order."""
    name = Path(checkpoint).name
    writer = df.writeStream.option("checkpointLocation", checkpoint)
    drain(writer.format("memory").queryName(name))
    return in_order(df.sparkSession.table(name))


def in_order(df: DataFrame) -> list[Any]:
    """Collect rows as lists, in order."""
    return sorted(map(list, df.collect()))
