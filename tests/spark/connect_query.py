"""A query over Spark Connect, in a process of its own: a session is classic or Connect for good."""

import json
import os
import sys
import time
from collections import Counter
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import (
    ProgressListener,
    TidegaugeDataSource,
    follow,
    in_open_window,
    process,
    read_stream,
    watermarked,
    windowed,
    write_stream,
)
from spark_source.errors import LoadError, TouchedLoadError
from spark_source.processing import count, tumbling
from tests.kafka_jars import connector_jars
from tests.spark.draining import drain
from tests.spark.processors import Timeouts
from tests.spark.topic_feed import EVENT_TIME


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


def main(url: str, stream: str, token: str, folder: str, bootstrap: str, topic: str) -> None:
    """Count events in windows until the stream is sealed, process it, and print what came out."""
    checkpoint = f"{folder}/checkpoint"
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
        .config("spark.eventLog.dir", folder)
        .config("spark.jars", ",".join(map(str, connector_jars())))
        .getOrCreate()
    )
    connection: dict[str, Any] = {"url": url, "stream": stream, "token": token}
    loaded = read_stream(
        spark,
        operators="windows",
        event_time="event_time + INTERVAL 0 SECONDS",  # stands for one inside the value
        readerGroup=f"{stream}-group",
        **connection,
    )
    counted = _counts(in_open_window(loaded, "5 seconds").where("key = 'seen'"))
    query = (
        counted.writeStream.outputMode("append")
        .option("checkpointLocation", checkpoint)
        .format("memory")
        .queryName("counted")
        .start()
    )
    ProgressListener(url, token).follow(query)
    others = read_stream(spark, operators="windows", **connection).where("key = 'unseen'")
    write_stream(
        _counts(others),
        url=url,
        stream=f"{stream}-counted",
        key="start",
        event_time="start + 5000",
        seal=True,
        checkpoint=f"{checkpoint}-of-sink",
        token=token,
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
            said = {"rows": sorted(rows), "dropped": _dropped(query), "late": _late(query)}
            print(json.dumps(said), flush=True)  # noqa: T201 (the test reads it)
        time.sleep(0.1)
    processed = _process(spark, url, stream, checkpoint)
    print(json.dumps({"processed": processed}), flush=True)  # noqa: T201 (the test reads it)
    kafka = {"kafka.bootstrap.servers": bootstrap, "kafka.sasl.password": token}
    external: dict[str, Any] = {"url": url, "stream": f"spark/{topic}", "topic": topic}
    read = read_stream(
        spark, log="kafka", event_time=EVENT_TIME, operators="windows", **external, **kafka
    )
    source = spark.readStream.format("kafka").options(subscribe=topic, **kafka)
    followed = follow(
        source.option("startingOffsets", "earliest").load(),
        event_time=EVENT_TIME,
        checkpoint=f"{checkpoint}-followed",
        operators="windows",
        **external,
    )
    of_kafka = {
        "read": _drained(_counts(read), "read", checkpoint),
        "followed": _drained(_counts(followed), "followed", checkpoint),
    }
    print(json.dumps(of_kafka), flush=True)  # noqa: T201 (the same)
    windows, late = _windowed(spark, url, stream, checkpoint)
    print(json.dumps({"windows": windows, "late": late}), flush=True)  # noqa: T201 (the same)


def _counts(rows: DataFrame) -> DataFrame:
    windows = rows.groupBy(F.window("event_time", "5 seconds")).count()
    return windows.select(F.unix_millis("window.start").alias("start"), "count")


def _process(spark: SparkSession, url: str, stream: str, checkpoint: str) -> list[list[object]]:
    """Run a processor over the stream, which is sealed by now, and return what it emits."""
    timeouts = process(read_stream(spark, url=url, stream=stream), Timeouts(), columns=[])
    said = timeouts.output().select("key", F.unix_millis("at"), "status")
    return _drained(said, "process", checkpoint)


def _windowed(spark: SparkSession, url: str, stream: str, checkpoint: str) -> list[list[Any]]:
    """Count the events of each key, before 1970 too, and return what both outputs say."""
    loads = [read_stream(spark, url=url, stream=one) for one in (stream, f"{stream}-early")]
    counted = windowed(
        loads[0].union(loads[1]),
        tumbling("5 seconds"),
        key="key",
        aggregates={"n": count()},
    )
    _drained(counted.frame.select("output", "result", "late"), "windowed", checkpoint)
    batch = spark.table("windowed")
    windows = counted.output(of=batch).select("key", F.unix_millis("window.end"), "n")
    late = counted.output("late", of=batch).select("key", F.unix_millis("event_time"))
    return [sorted(map(list, one.collect())) for one in (windows, late)]


def _drained(df: DataFrame, name: str, checkpoint: str) -> list[Any]:
    """Run a query to the end of what is there, and return what came out."""
    writer = df.writeStream.option("checkpointLocation", f"{checkpoint}-{name}")
    drain(writer.format("memory").queryName(name))
    return sorted(map(list, df.sparkSession.table(name).collect()))


def _late(query: object) -> dict[str, int]:
    """Count late rows by writer."""
    counts = Counter[str]()
    for progress in query.recentProgress:  # type: ignore[attr-defined]
        for observed in progress["observedMetrics"].values():
            # Over Connect a row of metrics is handed over as its values and its schema.
            names = [field["name"] for field in observed.schema["fields"]]
            counts.update(dict(zip(names, observed.values, strict=True))["late_writers"])
    return dict(counts)


def _dropped(query: object) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress  # type: ignore[attr-defined]
        for operator in progress["stateOperators"]
    )


main(*sys.argv[1:])
