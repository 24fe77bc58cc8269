"""The same query over topics in three ways: two of Tidegauge's, and Spark's guess."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from examples.flights.address import StreamAddress
from examples.flights.kafka.topic import FlightTopic
from examples.flights.queries import (
    WindowQuery,
    checkpoint_in,
    flights_of,
    read_flights_stream,
)
from spark_source import follow
from tidegauge.event_time import parse_event_time


class TopicQueries:
    """Starts queries over topics, each in a folder of its own.

    Parameters
    ----------
    spark
        The session, with the jars of Spark's own Kafka source.
    address
        Of the stream that their time is noted to.
    folder
        For the folders of the queries.
    """

    def __init__(self, spark: SparkSession, address: StreamAddress, folder: Path) -> None:
        self.address = address
        self._spark = spark
        self._folder = folder

    def read(self, topic: FlightTopic, *, every: str) -> WindowQuery:
        """Read a topic with Tidegauge's source."""
        flights = read_flights_stream(self._spark, self.address, **topic.source_options())
        return WindowQuery(
            "tidegauge log=kafka", flights, self._folder / "log-kafka", every=every
        )

    def follow(self, topic: FlightTopic, *, after: Callable[[], None]) -> WindowQuery:
        """Read a topic with Spark's own source, and follow the marks."""
        folder = self._folder / "follow"
        rows = follow(
            self._rows(topic),
            event_time="timestamp",
            url=self.address.url,
            stream=self.address.stream,
            topic=topic.name,
            checkpoint=str(checkpoint_in(folder)),
            operators="windows",
        )
        return WindowQuery("tidegauge follow", _flights(rows), folder, after=after)

    def guess(
        self, topic: FlightTopic, delay_h: int, *, after: Callable[[], None]
    ) -> WindowQuery:
        """Read a topic with Spark's own source, and guess the watermark by a delay."""
        rows = self._rows(topic).withColumnRenamed("timestamp", "event_time")
        guessed = rows.withWatermark("event_time", f"{delay_h} hours")
        # Without an observation the filter would be moved in front of the watermark.
        observed = guessed.observe("rows", F.count(F.lit(1)).alias("rows"))
        folder = self._folder / f"delay-{delay_h}"
        return WindowQuery(f"delay {delay_h} h", _flights(observed), folder, after=after)

    def _rows(self, topic: FlightTopic) -> DataFrame:
        options: dict[str, Any] = topic.kafka_options()
        reader = self._spark.readStream.format("kafka").options(**options)
        chosen = reader.option("subscribe", topic.name).option("startingOffsets", "earliest")
        return chosen.load()


def _flights(rows: DataFrame) -> DataFrame:
    """Leave out the records without a flight, which are for the watermark alone."""
    return flights_of(rows).where("origin is not null")


def watermarks_told(progress: Sequence[Any]) -> "pd.Series[int]":
    """Find the watermark (ms) that each batch told: that in effect in the next one.

    The progress is that of any query, batch by batch.
    """
    in_effect = {one["batchId"]: one["eventTime"]["watermark"] for one in progress}
    told = {
        batch - 1: parse_event_time(watermark)
        for batch, watermark in in_effect.items()
        if batch > 0
    }
    return pd.Series(told).reindex(range(max(told) + 1)).ffill().astype("int64")
