"""A Spark driver of a day: counts a stream in windows, and tells what each batch puts out."""

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import follow, quick_start, read_stream
from tests.kafka_jars import connector_jars
from tests.soak_day.roles import tell
from tests.spark.session import new_session

WINDOW_S = 10
_LOOK_EVERY_S = 60


def main(kind: str, url: str, stream: str, brokers: str, checkpoint: str) -> None:
    """Run the query, and tell now and then what its heap holds after a collection."""
    quick_start()
    settings = {
        "spark.driver.memory": "512m",
        "spark.jars": ",".join(map(str, connector_jars())),
        "spark.log.level": "ERROR",
        # So that its heap and its checkpoint level out within minutes.
        "spark.ui.retainedJobs": "20",
        "spark.ui.retainedStages": "20",
        "spark.ui.retainedTasks": "100",
        "spark.sql.ui.retainedExecutions": "20",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.warehouse.dir": str(Path(checkpoint).parent / "warehouse"),
    }
    spark = new_session(SparkSession.builder.master("local[1]"), settings)
    named: dict[str, Any] = {"url": url, "stream": stream, "operators": "windows"}
    if kind == "follow":
        topic = stream.partition("/")[2]
        kafka = {"kafka.bootstrap.servers": brokers, "subscribe": topic}
        source = spark.readStream.format("kafka").options(**kafka, startingOffsets="earliest")
        named |= {"topic": topic, "event_time": "timestamp", "checkpoint": checkpoint}
        rows = follow(source.load(), **named)
    else:
        rows = read_stream(spark, readerGroup="soak/counts", **named)
    counted = rows.groupBy(F.window("event_time", f"{WINDOW_S} seconds")).count()
    windows = counted.select(F.unix_millis("window.start"), "count")
    writer = windows.writeStream.option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="5 seconds").foreachBatch(_put_out).start()
    java: Any = spark.sparkContext._jvm
    memory = java.java.lang.management.ManagementFactory.getMemoryMXBean()
    while not query.awaitTermination(_LOOK_EVERY_S):
        memory.gc()
        tell("heap", memory.getHeapMemoryUsage().getUsed() / 1e6)


def _put_out(windows: DataFrame, batch: int) -> None:
    tell("windows", batch, [list(row) for row in windows.collect()])


if __name__ == "__main__":
    main(*sys.argv[1:])
