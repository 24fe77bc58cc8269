"""A driver that counts a topic's rows in windows and keeps each batch, to be killed by tests.

It does so twice at once: with ``log=kafka`` and windows of Spark's, without rows that are flagged,
and by `follow` and windows of ours, which hand late rows out.
"""

import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import follow, in_open_window, read_stream, windowed
from spark_source.processing import count, tumbling
from tests.kafka_jars import connector_jars
from tests.spark.topic_feed import EVENT_TIME


def main(bootstrap: str, url: str, topic: str, folder: Path) -> None:
    """Run the queries to their end."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "1")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .getOrCreate()
    )
    for query in start(spark, bootstrap, url, topic, folder):
        query.awaitTermination()


def start(
    spark: SparkSession, bootstrap: str, url: str, topic: str, folder: Path
) -> list[StreamingQuery]:
    """Write what batch 3 of the query `read` puts out to ``read/3.json``, all at once, and so on."""
    kafka = {"kafka.bootstrap.servers": bootstrap}
    stream: Any = {"url": url, "stream": f"spark/{topic}", "topic": topic}
    read = read_stream(
        spark,
        log="kafka",
        event_time=EVENT_TIME,
        operators="windows",
        maxEventTimePerTrigger="5 seconds",
        **stream,
        **kafka,
    )
    source = spark.readStream.format("kafka").options(**kafka, subscribe=topic)
    few = source.options(startingOffsets="earliest", maxOffsetsPerTrigger="15").load()
    checkpoint = str(folder / "followed" / "checkpoint")
    followed = follow(few, event_time=EVENT_TIME, checkpoint=checkpoint, **stream)
    on_time = in_open_window(read, "5 seconds")
    counted = on_time.groupBy(F.window("event_time", "5 seconds")).count()
    windows = counted.select(F.lit("result"), F.unix_millis("window.start"), "count")
    return [_start(windows, folder / "read"), _start(_windowed(followed), folder / "followed")]


def _windowed(df: DataFrame) -> DataFrame:
    """Tell where each window starts, and its rows; of a late row, where its window did."""
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
    """Keep what comes out."""

    def keep(batch: DataFrame, number: int) -> None:
        folder.mkdir(exist_ok=True)
        written = folder / f"{number}.tmp"
        written.write_text(json.dumps([list(row) for row in batch.collect()]))
        written.rename(folder / f"{number}.json")

    writer = rows.writeStream.foreachBatch(keep).trigger(availableNow=True)
    return writer.option("checkpointLocation", str(folder / "checkpoint")).start()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
