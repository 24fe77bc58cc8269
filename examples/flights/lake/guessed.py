"""The same chain in Spark with its own watermark in each job, over the bronze table of the demo."""

from pathlib import Path

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from examples.flights.lake.chain import Chain
from examples.flights.lake.jobs import Lake, add_hours, count_flights, read_table
from examples.flights.lake.versions import read_versions
from examples.flights.windows import ClosedWindows, check_rule


def run_guessed(spark: SparkSession, lake: Lake, delay_h: int, model: Chain) -> None:
    """Run silver and gold with a delay, and raise `DemoFailedError` unless both equal the model."""
    name, delay = f"delay {delay_h} h", f"{delay_h} hours"
    silver, gold = f"silver-{delay_h}-h", f"gold-{delay_h}-h"
    flights = read_table(spark, lake.table("bronze")).withWatermark("departed", delay)
    _write(count_flights(flights, "departed"), lake, silver)
    _check(f"silver, {name}", Path(lake.table(silver)), "hour", model.hours)
    hours = read_table(spark, lake.table(silver)).withWatermark("hour", delay)
    _write(add_hours(hours, "hour"), lake, gold)
    _check(f"gold, {name}", Path(lake.table(gold)), "day", model.days)


def _write(rows: DataFrame, lake: Lake, table: str) -> None:
    writer = rows.writeStream.format("delta").outputMode("append")
    writer = writer.option("checkpointLocation", lake.checkpoint(table))
    writer.trigger(availableNow=True).start(lake.table(table)).awaitTermination()


def _check(name: str, table: Path, time: str, model: pd.DataFrame) -> None:
    found = read_versions(table, time)
    batch = found.rows["version"].map(found.batches)
    windows = found.rows.rename(columns={time: "start"}).assign(batch=batch)
    check_rule(ClosedWindows(name, windows, never_closed=0), model)
