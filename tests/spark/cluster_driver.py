"""Queries on a standalone cluster, in a process of its own: a JVM has one master for good."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from spark_source import process, read_stream, windowed, write_stream
from spark_source.processing import tumbling
from spark_source.processing.aggregates import count
from tests.spark import processors
from tests.spark.draining import DRAINS, finish, in_order, rows_of
from tests.spark.session import new_session


def _about_python(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tell where Python is, and whether it could import what a service needs."""
    from importlib.util import find_spec  # noqa: PLC0415 (sent by value)

    for _ in batches:
        service = [name for name in ("fastapi", "sqlalchemy", "uvicorn") if find_spec(name)]
        found = {"prefix": [sys.prefix], "service": [",".join(service)]}
        yield pa.RecordBatch.from_pydict(found)


def main(master: str, url: str, stream: str, folder: str) -> None:
    """Run source, sink, ``process`` and ``windowed`` over a sealed stream, and print what came out."""
    os.environ["PYSPARK_PYTHON"] = "python3"
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    # Executors have no module of it.
    cloudpickle.register_pickle_by_value(processors)  # type: ignore[no-untyped-call]
    settings = {
        "spark.cores.max": "2",
        "spark.python.daemon.module": "pyspark.daemon",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
        "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = new_session(SparkSession.builder.master(master), settings)
    told = _told(spark, url, stream, folder)
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
    timeouts = process(read_stream(spark, **load), processors.Timeouts(), columns=[])
    counted = windowed(
        read_stream(spark, **load), tumbling("5 seconds"), key="key", aggregates={"n": count()}
    )
    said = rows_of(timeouts.output().select("key", F.unix_millis("at")), f"{folder}/process")
    rows_of(counted.frame.select("output", "result", "late"), f"{folder}/windowed")
    batch = counted.output(of=spark.table("windowed"))
    places = spark.range(2, numPartitions=2).mapInArrow(
        _about_python, "prefix string, service string"
    )
    return {
        "processed": said,
        "windows": in_order(batch.select("key", F.unix_millis("window.end"), "n")),
        "python": in_order(places),
    }


if __name__ == "__main__":
    main(*sys.argv[1:])
