"""Queries that read what is there and end, on each version of Spark."""

import pyspark
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
