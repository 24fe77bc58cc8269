"""Queries on a standalone cluster, in a process of its own: a JVM has one master for good."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import process, read_stream, windowed, write_stream
from spark_source.processing import Context, Event, EventTimeProcessor, count, tumbling
from spark_source.processing.keys import Key
from tests.spark.draining import DRAINS, drain, finish


class Timeouts(EventTimeProcessor):
    """Tells when a key was silent for 15 ms; executors have no module of it."""

    output = "key string, at timestamp"

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.set_timer("timeout", ctx.time_ms + 15)

    def on_timer(self, key: Key, name: str, ctx: Context) -> None:  # noqa: ARG002 (as called)
        ctx.emit(key, ctx.time)


def _about_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell where Python is, and whether it could import what a service needs."""
    from importlib.util import find_spec  # noqa: PLC0415 (sent by value)

    for _ in batches:
        service = [name for name in ("fastapi", "sqlalchemy", "uvicorn") if find_spec(name)]
        found = {"prefix": [sys.prefix], "service": [",".join(service)]}
        yield pa.RecordBatch.from_pydict(found)


def main(master: str, cores: str, url: str, stream: str, folder: str) -> None:
    """Run source, sink, ``process`` and ``windowed`` over a sealed stream, and print what came out."""
    os.environ["PYSPARK_PYTHON"] = "python3"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    settings: dict[str, Any] = {
        "spark.cores.max": cores,
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution"
        ".streaming.state.RocksDBStateStoreProvider",
        "spark.ui.enabled": "false",
    }
    spark = SparkSession.builder.master(master).config(map=settings).getOrCreate()
    try:
        told = _told(spark, url, stream, folder)
    except StreamingQueryException as error:
        told = {"failed": str(error)}
    print(json.dumps(told), flush=True)  # noqa: T201 (the test reads it)
    spark.stop()


def _told(spark: SparkSession, url: str, stream: str, folder: str) -> dict[str, Any]:
    load: dict[str, Any] = {"url": url, "stream": stream}
    counts = read_stream(spark, operators="windows", **load)
    windows = counts.groupBy(F.window("event_time", "5 seconds")).count()
    query = write_stream(
        windows.select(F.unix_millis("window.start").alias("start"), "count"),
        url=url,
        stream=f"{stream}-counted",
        key="string(start)",
        event_time="start + 5000",
        checkpoint=f"{folder}/sink",
        trigger="availableNow" if DRAINS else None,
    )
    finish(query)
    if (error := query.exception()) is not None:
        raise error
    timeouts = process(read_stream(spark, **load), Timeouts(), columns=[])
    counted = windowed(
        read_stream(spark, **load), tumbling("5 seconds"), key="key", aggregates={"n": count()}
    )
    said = _rows(timeouts.output().select("key", F.unix_millis("at")), f"{folder}/process")
    _rows(counted.frame.select("output", "result", "late"), f"{folder}/windowed")
    batch = counted.output(of=spark.table("windowed"))
    places = spark.range(2, numPartitions=2).mapInArrow(
        _about_python, "prefix string, service string"
    )
    return {
        "processed": said,
        "windows": sorted(
            map(list, batch.select("key", F.unix_millis("window.end"), "n").collect())
        ),
        "python": sorted(map(list, places.collect())),
    }


def _rows(df: DataFrame, checkpoint: str) -> list[Any]:
    name = Path(checkpoint).name
    drain(
        df.writeStream.option("checkpointLocation", checkpoint).format("memory").queryName(name)
    )
    return sorted(map(list, df.sparkSession.table(name).collect()))


if __name__ == "__main__":
    main(*sys.argv[1:])
