"""Queries that tests kill in a driver: a sink, a processor, and a topic that is read either way."""

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

import spark_source.frames.write
import spark_source.sink.sink
from spark_source import (
    TidegaugeDataSource,
    follow,
    in_open_window,
    process,
    read_stream,
    windowed,
    write_stream,
)
from spark_source.options.sink import read_stream_options
from spark_source.processing import tumbling
from spark_source.processing.aggregates import count
from spark_source.sink.sink import StreamSink, TaskRows
from tests.kafka_jars import connector_jars
from tests.spark.drivers import MOMENT, commits, die_at
from tests.spark.kafka_feed import EVENT_TIME
from tests.spark.processors import Visits
from tests.spark.session import new_session

MOMENTS = ("before the tasks write", "after the tasks wrote", "after the publish")
QUERIES = ("sink", "visits", "read", "followed")
"""Each has a folder, with its checkpoint."""


class Places(NamedTuple):
    """What the queries read and write: streams of a service, and a topic with its stream."""

    url: str
    source: str
    target: str
    readings: str
    bootstrap: str
    topic: str


class FragileSink(StreamSink):
    """Dies at the moment that the environment names, and loses the first attempt of each task.

    Of two tasks one stages its rows, the other sends them with its message.
    """

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        batches = [batch for batch in iterator if batch.num_rows]
        task = TaskContext.get()
        if task is None or not batches:
            return super().write(iter(batches))
        self._die_at(MOMENTS[0])
        vars(spark_source.sink.sink)["REQUEST_BYTES"] = 1 if task.partitionId() else 2**20
        written = super().write(iter(batches))
        if task.attemptNumber() == 0:
            msg = "the first attempt of every task is lost after it wrote"
            raise RuntimeError(msg)
        return written

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        has_rows = any(task.transaction for task in messages if isinstance(task, TaskRows))
        if has_rows:
            self._die_at(MOMENTS[1])
        super().commit(messages, batchId)
        if has_rows:
            self._die_at(MOMENTS[2])

    def _die_at(self, moment: str) -> None:
        """Die once each of the other queries has done a batch, so that it is stopped, too."""
        if os.environ.get(MOMENT) == moment:
            folder = Path(self._options.checkpoint).parents[1]
            while not all(commits(folder / name) for name in QUERIES[1:]):
                time.sleep(0.05)  # the test's own timeout ends it
        die_at(moment)


class FragileDataSource(TidegaugeDataSource):
    """Writes by that sink."""

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamSink:
        return FragileSink(read_stream_options(dict(self.options)))


def main(folder: Path, places: Places) -> None:
    """Run the queries to their end."""
    vars(spark_source.frames.write)["TidegaugeDataSource"] = FragileDataSource
    settings = {
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.sql.shuffle.partitions": "2",
    }
    spark = new_session(SparkSession.builder.master("local[2, 2]"), settings)
    for query in start(spark, folder, places):
        query.awaitTermination()


def start(spark: SparkSession, folder: Path, places: Places) -> list[StreamingQuery]:
    """Start the queries, or start them again."""
    rows = read_stream(
        spark,
        operators="windows",
        url=places.url,
        stream=places.source,
        maxEventTimePerTrigger="10 seconds",
    )
    writing = write_stream(
        rows.groupBy("key", F.window("event_time", "5 seconds")).count(),
        url=places.url,
        stream=places.target,
        seal=True,
        checkpoint=str(folder / "sink" / "checkpoint"),
        trigger="availableNow",
    )
    frames = {"visits": _visits(spark, places)} | _of_topic(spark, folder, places)
    return [writing, *(_start(df, folder / name) for name, df in frames.items())]


def _visits(spark: SparkSession, places: Places) -> DataFrame:
    readings = (
        read_stream(spark, url=places.url, stream=places.readings, maxRowsPerTrigger=100)
        .withColumn("number", F.col("offset"))
        .withColumn("shown", F.col("value").cast("string"))
    )
    visits = process(readings, Visits(), columns=["number", "shown"], buckets=4)
    return visits.frame.select("output", F.to_json("main"), "late.offset")


def _of_topic(spark: SparkSession, folder: Path, places: Places) -> dict[str, DataFrame]:
    """Count with windows of Spark's, without rows that are flagged, and with ours, which hand them out."""
    kafka = {"kafka.bootstrap.servers": places.bootstrap}
    stream: Any = {"url": places.url, "stream": f"kafka/{places.topic}", "topic": places.topic}
    read = read_stream(
        spark,
        log="kafka",
        event_time=EVENT_TIME,
        operators="windows",
        maxEventTimePerTrigger="5 seconds",
        **stream,
        **kafka,
    )
    source = spark.readStream.format("kafka").options(**kafka, subscribe=places.topic)
    few = source.options(startingOffsets="earliest", maxOffsetsPerTrigger="15").load()
    checkpoint = str(folder / "followed" / "checkpoint")
    followed = follow(few, event_time=EVENT_TIME, checkpoint=checkpoint, **stream)
    on_time = in_open_window(read, "5 seconds")
    counted = on_time.groupBy(F.window("event_time", "5 seconds")).count()
    return {
        "read": counted.select(F.lit("result"), F.unix_millis("window.start"), "count"),
        "followed": _windowed(followed),
    }


def _windowed(df: DataFrame) -> DataFrame:
    """Show where each window starts, and its rows; of a late row, where its window did."""
    counts = windowed(
        df.withColumn("key", F.col("key").cast("string")),
        tumbling("5 seconds"),
        key="key",
        aggregates={"n": count()},
        buckets=1,
    )
    late = F.expr("unix_millis(late.event_time) - unix_millis(late.event_time) % 5000")
    start = F.coalesce(F.unix_millis("result.window.start"), late)
    return counts.frame.select("output", start, F.coalesce("result.n", F.lit(1)))


def _start(rows: DataFrame, folder: Path) -> StreamingQuery:
    """Write what batch 3 puts out to ``3.json``, all at once, and so on."""

    def keep(batch: DataFrame, number: int) -> None:
        folder.mkdir(exist_ok=True)
        written = folder / f"{number}.tmp"
        written.write_text(json.dumps([list(row) for row in batch.collect()]))
        written.rename(folder / f"{number}.json")

    writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


def kept(folder: Path) -> list[list[Any]]:
    """Read what all batches of a query put out, of which none may be missing."""
    numbers = sorted(int(file.stem) for file in folder.glob("*.json"))
    assert numbers == list(range(len(numbers)))
    texts = [(folder / f"{number}.json").read_text() for number in numbers]
    return [row for text in texts for row in json.loads(text)]


if __name__ == "__main__":
    main(Path(sys.argv[1]), Places(*sys.argv[2:]))
