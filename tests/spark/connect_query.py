"""Queries over Spark Connect, in a process of its own: a session is classic or Connect for good.

What they put out is printed as it comes, a line of JSON each.
"""

import json
import os
import sys
import time
from collections import Counter
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

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
from spark_source.processing import tumbling
from spark_source.processing.aggregates import count
from tests.kafka_jars import connector_jars
from tests.spark.draining import in_order, rows_of
from tests.spark.kafka_feed import EVENT_TIME
from tests.spark.processors import Timeouts
from tests.spark.session import new_session


def _say(**said: object) -> None:
    print(json.dumps(said), flush=True)  # noqa: T201 (the test reads it)


class Queries:
    """The queries of one session over one stream, and over a topic."""

    def __init__(self, spark: SparkSession, folder: str, *, url: str, stream: str) -> None:
        self._spark = spark
        self._folder = folder
        self.url, self.stream = url, stream

    def count(self, token: str) -> None:
        """Count events in windows, in memory and in another stream, until the stream is sealed."""
        connection: dict[str, Any] = {"url": self.url, "stream": self.stream, "token": token}
        loaded = read_stream(
            self._spark,
            operators="windows",
            event_time="event_time + INTERVAL 0 SECONDS",  # stands for one inside the value
            readerGroup=f"{self.stream}-group",
            **connection,
        )
        counted = _counts(in_open_window(loaded, "5 seconds").where("key = 'seen'"))
        writer = counted.writeStream.option("checkpointLocation", f"{self._folder}/counted")
        query = writer.format("memory").queryName("counted").start()
        ProgressListener(self.url, token).follow(query)
        others = read_stream(self._spark, operators="windows", **connection)
        write_stream(
            _counts(others.where("key = 'unseen'")),
            url=self.url,
            stream=f"{self.stream}-counted",
            key="start",
            event_time="start + 5000",
            seal=True,
            checkpoint=f"{self._folder}/sink",
            token=token,
        )
        self._refuse()
        self._watch(query)

    def _refuse(self) -> None:
        """Say how wrong loads are refused."""
        self._spark.dataSource.register(TidegaugeDataSource)
        options = {"url": self.url, "stream": self.stream}
        loaded = self._spark.readStream.format("tidegauge").options(**options).load()
        try:
            watermarked(loaded.where("key = 'a'"))
        except TouchedLoadError as error:
            touched = type(error).__name__
        try:
            read_stream(self._spark, url=self.url, stream="spark/none")
        except LoadError as error:
            _say(touched=touched, none=str(error))

    def _watch(self, query: StreamingQuery) -> None:
        shown = -1
        while shown < 2:
            failure: PySparkException | None = query.exception()
            if failure is not None:
                raise failure
            rows = in_order(self._spark.table("counted").select("start", "count"))
            if len(rows) != shown:
                shown = len(rows)
                _say(rows=rows, dropped=_dropped(query), late=_late(query))
            time.sleep(0.1)

    def process(self) -> None:
        """Run a processor over the stream, which is sealed by now."""
        load = read_stream(self._spark, url=self.url, stream=self.stream)
        timeouts = process(load, Timeouts(), columns=[])
        output = timeouts.output().select("key", F.unix_millis("at"), "status")
        _say(processed=self._drained(output, "process"))

    def window(self) -> None:
        """Count the events of each key, before 1970 too, and say what both outputs have."""
        streams = (self.stream, f"{self.stream}-early")
        loads = [read_stream(self._spark, url=self.url, stream=stream) for stream in streams]
        aggregates = {"n": count()}
        counted = windowed(
            loads[0].union(loads[1]), tumbling("5 seconds"), key="key", aggregates=aggregates
        )
        self._drained(counted.frame.select("output", "result", "late"), "windowed")
        batch = self._spark.table("windowed")
        windows = counted.output(of=batch).select("key", F.unix_millis("window.end"), "n")
        late = counted.output("late", of=batch).select("key", F.unix_millis("event_time"))
        _say(windows=in_order(windows), late=in_order(late))

    def read_topic(self, bootstrap: str, topic: str, secret: str) -> None:
        """Count a topic in windows, read either way."""
        kafka: Any = {"kafka.bootstrap.servers": bootstrap, "kafka.sasl.password": secret}
        stream: Any = {"url": self.url, "stream": f"kafka/{topic}", "topic": topic}
        how: Any = {"event_time": EVENT_TIME, "operators": "windows"}
        read = read_stream(self._spark, log="kafka", **stream, **kafka, **how)
        source = self._spark.readStream.format("kafka").options(subscribe=topic, **kafka)
        loaded = source.option("startingOffsets", "earliest").load()
        followed = follow(loaded, checkpoint=f"{self._folder}/followed", **stream, **how)
        _say(
            read=self._drained(_counts(read), "read"),
            followed=self._drained(_counts(followed), "followed"),
        )

    def _drained(self, df: DataFrame, name: str) -> list[Any]:
        """Run a query to the end of what is there, and return what came out."""
        return rows_of(df, f"{self._folder}/{name}")


def _counts(rows: DataFrame) -> DataFrame:
    windows = rows.groupBy(F.window("event_time", "5 seconds")).count()
    return windows.select(F.unix_millis("window.start").alias("start"), "count")


def _late(query: StreamingQuery) -> dict[str, int]:
    """Count late rows by writer."""
    counts = Counter[str]()
    for progress in query.recentProgress:
        for observed in progress["observedMetrics"].values():
            # Over Connect a row of metrics is handed over as its values and its schema.
            names = [field["name"] for field in observed.schema["fields"]]
            counts.update(dict(zip(names, observed.values, strict=True))["late_writers"])
    return dict(counts)


def _dropped(query: StreamingQuery) -> int:
    return sum(
        operator["numRowsDroppedByWatermark"]
        for progress in query.recentProgress
        for operator in progress["stateOperators"]
    )


def main(url: str, stream: str, token: str, folder: str, bootstrap: str, topic: str) -> None:
    """Run the queries, one after another."""
    os.environ["SPARK_TESTING"] = "yes"  # Spark Connect then listens on a free port.
    settings = {
        "spark.sql.redaction.string.regex": "nothing of this kind",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": folder,
        "spark.jars": ",".join(map(str, connector_jars())),
    }
    spark = new_session(SparkSession.builder.remote("local[2]"), settings)
    queries = Queries(spark, folder, url=url, stream=stream)
    queries.count(token)
    queries.process()
    queries.read_topic(bootstrap, topic, token)
    queries.window()


main(*sys.argv[1:])
