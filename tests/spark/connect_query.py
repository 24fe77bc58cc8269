"""A query over Spark Connect, in a process of its own: a session is classic or Connect for good."""

import json
import os
import sys
import time

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import (
    LoadError,
    TidegaugeDataSource,
    TouchedLoadError,
    process,
    read_stream,
    watermarked,
)
from tests.quick_spark import QUICK_SETTINGS
from tests.spark.processors import Timeouts


def _refuses_a_touched_load(spark: SparkSession, url: str, stream: str) -> bool:
    spark.dataSource.register(TidegaugeDataSource)
    loaded = spark.readStream.format("tidegauge").options(url=url, stream=stream).load()
    try:
        watermarked(loaded.where("key = 'a'"))
    except TouchedLoadError:
        return True
    return False


def _tells_what_is_wrong(spark: SparkSession, url: str) -> str:
    try:
        read_stream(spark, url=url, stream="spark/none")
    except LoadError as error:
        return str(error)
    return "nothing"


def main(url: str, stream: str, checkpoint: str, token: str, event_log: str) -> None:
    """Count events in windows until the stream is sealed, process it, and print what came out."""
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
        .config("spark.sql.redaction.string.regex", "nothing of this kind")
        .config("spark.eventLog.enabled", "true")
        .config("spark.eventLog.compress", "false")
        .config("spark.eventLog.dir", event_log)
        .config(map=dict(QUICK_SETTINGS))
        .getOrCreate()
    )
    counted = (
        read_stream(spark, operators="windows", url=url, stream=stream, token=token)
        .where("key = 'seen'")
        .groupBy(F.window("event_time", "5 seconds"))
        .count()
        .select(F.unix_millis("window.start").alias("start"), "count")
    )
    query = (
        counted.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .format("memory")
        .queryName("counted")
        .start()
    )
    told = _tells_what_is_wrong(spark, url)
    refuses = _refuses_a_touched_load(spark, url, stream)
    print(json.dumps({"refuses": refuses, "told": told}), flush=True)  # noqa: T201 (the test reads it)
    shown = -1
    while shown < 2:
        failure: PySparkException | None = query.exception()
        if failure is not None:
            raise failure
        rows = [[row["start"], row["count"]] for row in spark.table("counted").collect()]
        if len(rows) != shown:
            shown = len(rows)
            print(json.dumps({"rows": sorted(rows), "dropped": _dropped(query)}), flush=True)  # noqa: T201 (the test reads it)
        time.sleep(0.1)
    processed = _process(spark, url, stream, checkpoint)
    print(json.dumps({"processed": processed}), flush=True)  # noqa: T201 (the test reads it)


def _process(spark: SparkSession, url: str, stream: str, checkpoint: str) -> list[list[object]]:
    """Run a processor over the stream, which is sealed by now, and return what it emits."""
    timeouts = process(read_stream(spark, url=url, stream=stream), Timeouts(), columns=[])
    query = (
        timeouts.output()
        .writeStream.option("checkpointLocation", f"{checkpoint}-process")
        .format("memory")
        .queryName("timeouts")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    found = spark.table("timeouts").select("key", F.unix_millis("at"), "status").collect()
    return sorted(list(row) for row in found)


def _dropped(query: object) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress  # type: ignore[attr-defined]
        for operator in progress["stateOperators"]
    )


main(*sys.argv[1:])
