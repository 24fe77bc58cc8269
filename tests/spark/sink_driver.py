"""A query that writes to a stream, in a process of its own that is killed where it is told to be."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import spark_source.frames.write
import spark_source.sink.sink
from spark_source import TidegaugeDataSource, read_stream, write_stream
from spark_source.options.sink import read_stream_options
from spark_source.sink.sink import StreamSink, TaskRows
from tests.spark.drivers import die_at

MOMENTS = ("before the tasks write", "after the tasks wrote", "after the publish")


class FragileSink(StreamSink):
    """Dies at the moment that the environment names, and loses the first attempt of each task.

    Of two tasks one stages its rows, the other sends them with its message.
    """

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = [one for one in iterator if one.num_rows]
        task = TaskContext.get()
        if task is None or not batches:
            return super().write(iter(batches))
        die_at(MOMENTS[0])
        vars(spark_source.sink.sink)["REQUEST_BYTES"] = 1 if task.partitionId() else 2**20
        written = super().write(iter(batches))
        if task.attemptNumber() == 0:
            msg = "the first attempt of every task is lost after it wrote"
            raise RuntimeError(msg)
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        has_rows = any(one.transaction for one in messages if isinstance(one, TaskRows))
        if has_rows:
            die_at(MOMENTS[1])
        super().commit(messages, batchId)
        if has_rows:
            die_at(MOMENTS[2])


class FragileDataSource(TidegaugeDataSource):
    """Writes by that sink."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        return FragileSink(read_stream_options(dict(self.options)))


def main(url: str, source: str, target: str, checkpoint: str) -> None:
    """Run the query to its end."""
    vars(spark_source.frames.write)["TidegaugeDataSource"] = FragileDataSource
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2, 2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    start(spark, url, source, target, Path(checkpoint)).awaitTermination()


def start(
    spark: SparkSession, url: str, source: str, target: str, checkpoint: Path
) -> StreamingQuery:
    """Count in windows until the source is read to its end."""
    rows = read_stream(
        spark, operators="windows", url=url, stream=source, maxEventTimePerTrigger="10 seconds"
    )
    return write_stream(
        rows.groupBy("key", F.window("event_time", "5 seconds")).count(),
        url=url,
        stream=target,
        seal=True,
        checkpoint=str(checkpoint),
        trigger="availableNow",
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
