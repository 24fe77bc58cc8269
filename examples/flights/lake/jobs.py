"""The three queries of the chain; each runs in a process of its own, with a Spark of its own.

python -m examples.flights.lake.jobs silver FOLDER URL JARS
"""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep

from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.queries import LIVE_BATCH, running_spark
from spark_source import append_to_table, follow, read_stream

STREAM = "demo/flights"
DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
    # Code that runs for minutes never earns the second compilation.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # When the replay is over, every batch is looked up.
    "spark.sql.streaming.minBatchesToRetain": "100000",
}
"""Settings of a small session that writes Delta tables."""

_FLIGHT = "origin string, delay double, landed long"
_POLL = "0.5 seconds"


@dataclass(frozen=True, slots=True)
class Lake:
    """A folder with a table and a checkpoint for each job, and the service with the flights."""

    folder: Path
    url: str

    def table(self, name: str) -> str:
        """Return the place of a table."""
        return str(self.folder / name)

    def checkpoint(self, name: str) -> str:
        """Return the place of the checkpoint of the job that writes a table."""
        return str(self.folder / f"{name}-checkpoint")


def bronze(spark: SparkSession, lake: Lake) -> StreamingQuery:
    """Append each flight as it was reported."""
    events = read_stream(spark, url=lake.url, stream=STREAM)
    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    rows = events.select(F.col("event_time").alias("departed"), flight.alias("flight"))
    return append_to_table(
        rows.select("departed", "flight.*"),
        lake.table("bronze"),
        format="delta",
        event_time="departed",
        checkpoint=lake.checkpoint("bronze"),
        trigger=LIVE_BATCH,
    )


def silver(spark: SparkSession, lake: Lake) -> StreamingQuery:
    """Count the flights of each airport and hour, once the hour is complete in bronze."""
    flights = _follow(spark, lake, "bronze", "departed", by="silver")
    return append_to_table(
        count_flights(flights, "event_time"),
        lake.table("silver"),
        format="delta",
        event_time="hour",
        output_delay="1 hour",
        checkpoint=lake.checkpoint("silver"),
        trigger=_POLL,
    )


def gold(spark: SparkSession, lake: Lake) -> StreamingQuery:
    """Add the hours of each airport and day, once the day is complete in silver."""
    hours = _follow(spark, lake, "silver", "hour", by="gold")
    return append_to_table(
        add_hours(hours, "event_time"),
        lake.table("gold"),
        format="delta",
        event_time="day",
        output_delay="1 day",
        checkpoint=lake.checkpoint("gold"),
        trigger=_POLL,
    )


JOBS: Mapping[str, Callable[[SparkSession, Lake], StreamingQuery]] = {
    "bronze": bronze,
    "silver": silver,
    "gold": gold,
}
"""By the table that each writes, in the order of the chain."""
TIMES = {"bronze": "departed", "silver": "hour", "gold": "day"}
"""The column of each table that is its rows' time."""


def _follow(spark: SparkSession, lake: Lake, table: str, time: str, *, by: str) -> DataFrame:
    path = lake.table(table)
    while not DeltaTable.is_deltatable(path):  # the job before has just begun
        sleep(0.2)
    return follow(
        read_table(spark, path),
        event_time=time,
        table=path,
        checkpoint=lake.checkpoint(by),
        operators="windows",
    )


def read_table(spark: SparkSession, table: str) -> DataFrame:
    """Read a table as a stream from its first version on, one file a batch."""
    source = spark.readStream.format("delta")
    return source.options(startingVersion=0, maxFilesPerTrigger=1).load(table)


def count_flights(flights: DataFrame, time: str) -> DataFrame:
    """Count flights, and add up their delays, for each airport and hour."""
    hourly = flights.groupBy("origin", F.window(time, "1 hour")).agg(
        F.count(F.lit(1)).alias("departures"), F.sum("delay").alias("delay")
    )
    return hourly.select("origin", F.col("window.start").alias("hour"), "departures", "delay")


def add_hours(hours: DataFrame, time: str) -> DataFrame:
    """Add up hours for each airport and day."""
    daily = hours.groupBy("origin", F.window(time, "1 day")).agg(
        F.sum("departures").alias("departures"), F.sum("delay").alias("delay")
    )
    return daily.select("origin", F.col("window.start").alias("day"), "departures", "delay")


if __name__ == "__main__":
    _, _name, _folder, _url, _jars = sys.argv
    with running_spark(jars=sorted(Path(_jars).glob("*.jar")), settings=DELTA) as _spark:
        JOBS[_name](_spark, Lake(Path(_folder), _url)).awaitTermination()
