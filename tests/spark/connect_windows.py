"""Windows over Spark Connect, in a process of their own: a session is classic or Connect for good."""

import json
import os
import sys

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import read_stream, windowed
from spark_source.processing import count, tumbling
from tests.quick_spark import QUICK_SETTINGS


def main(url: str, stream: str, checkpoint: str) -> None:
    """Count events until the stream ends, and print both outputs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_TESTING"] = "yes"  # Spark Connect then listens on a free port.
    spark = (
        SparkSession.builder.remote("local[2]")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config(map=dict(QUICK_SETTINGS))
        .getOrCreate()
    )
    counted = windowed(
        read_stream(spark, url=url, stream=stream),
        tumbling("5 seconds"),
        key="key",
        aggregates={"n": count()},
    )
    query = (
        counted.frame.writeStream.format("memory")
        .option("checkpointLocation", checkpoint)
        .queryName("counted")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    batch = spark.table("counted")
    windows = counted.output(of=batch).select("key", F.unix_millis("window.end"), "n")
    late = counted.output("late", of=batch).select(
        "key", F.unix_millis("event_time"), "late_by"
    )
    shown = [sorted(map(tuple, one.collect())) for one in (windows, late)]
    print(json.dumps(shown), flush=True)  # noqa: T201 (the test reads it)


main(*sys.argv[1:])
