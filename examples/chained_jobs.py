"""Three chained jobs: departures by airport and hour, then by day, then alerts of bad days.

Each job reads a stream and writes the next, and each stream has an exact watermark: that of the
days says for certain that a day is complete, though every job may be killed and started again.
The flights are those that left New York in January 2013, in the order in which they landed.

    pip install '.[all]'
    tidegauge serve &
    python -m examples.chained_jobs --days 3

Kill it while the jobs run, and start it again with the same ``--folder``: they go on, and the
result is the same. ``--jobs`` runs some of them, so that each may have a process of its own. To
begin anew choose another ``--scope`` and another ``--folder``.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import httpx
import pandas as pd
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from examples.flights.data import HOUR_MS, of_first_days, read_flights
from reader_client import StreamClient
from spark_source import quick_start, read_stream, write_stream
from writer_client import Writer

BAD_MINUTES = 15.0
"""A day whose mean delay is above it is worth an alert."""

_FLIGHT = "delay double"
_HOUR = "departures long, minutes double"
_DAY = "departures long, mean_delay double, worst_hour double"


def hourly(flights: DataFrame) -> DataFrame:
    """Count departures and their minutes of delay by airport and hour.

    What is of the hour that ends at midnight belongs to the day before: its time is the last
    millisecond of the hour.
    """
    flight = F.from_json(F.col("value").cast("string"), _FLIGHT)
    return (
        flights.select("event_time", F.col("key").alias("origin"), flight.alias("flight"))
        .groupBy("origin", F.window("event_time", "1 hour"))
        .agg(F.count(F.lit(1)).alias("departures"), F.sum("flight.delay").alias("minutes"))
        .select("origin", F.window_time("window").alias("at"), "departures", "minutes")
    )


def daily(hours: DataFrame) -> DataFrame:
    """Return the mean delay of an airport's day, and that of its worst hour."""
    hour = F.from_json(F.col("value").cast("string"), _HOUR)
    return (
        hours.select("event_time", F.col("key").alias("origin"), hour.alias("hour"))
        .groupBy("origin", F.window("event_time", "1 day"))
        .agg(
            F.sum("hour.departures").alias("departures"),
            F.sum("hour.minutes").alias("minutes"),
            F.max(F.col("hour.minutes") / F.col("hour.departures")).alias("worst_hour"),
        )
        .select(
            "origin",
            F.col("window.end").alias("at"),
            "departures",
            (F.col("minutes") / F.col("departures")).alias("mean_delay"),
            "worst_hour",
        )
    )


def alerts(days: DataFrame) -> DataFrame:
    """Keep the bad days."""
    day = F.from_json(F.col("value").cast("string"), _DAY)
    return (
        days.select("event_time", F.col("key").alias("origin"), day.alias("day"))
        .where(F.col("day.mean_delay") > BAD_MINUTES)
        .select("origin", F.col("event_time").alias("at"), "day.*")
    )


class Job(NamedTuple):
    """Reads a stream, and writes the next."""

    source: str
    target: str
    work: Callable[[DataFrame], DataFrame]


JOBS = {
    "hourly": Job("flights", "hours", hourly),
    "daily": Job("hours", "days", daily),
    "alerts": Job("days", "alerts", alerts),
}


def start(
    spark: SparkSession, job: Job, *, url: str, scope: str, checkpoint: Path
) -> StreamingQuery:
    """Start a job, or go on where it was; it ends its target when its source has ended."""
    source = read_stream(
        spark,
        operators="windows",
        url=url,
        stream=f"{scope}/{job.source}",
        maxEventTimePerTrigger="12 hours",
    )
    return write_stream(
        job.work(source),
        url=url,
        stream=f"{scope}/{job.target}",
        key="origin",
        event_time="at",
        seal=True,
        checkpoint=str(checkpoint),
    )


def create_streams(url: str, scope: str) -> None:
    """Create the streams; marks are not thinned, so that batches may end at each."""
    for stream in ("flights", "hours", "days", "alerts"):
        with StreamClient(url, f"{scope}/{stream}") as client:
            client.create(segments=2, mark_interval_ms=0, mark_resolution_ms=0)


def write_flights(url: str, scope: str, flights: pd.DataFrame) -> None:
    """Let each airport write its flights as they land, and seal the stream behind them.

    Hour by hour an airport notes the earliest departure that has not landed yet: it writes
    nothing older. All of them register before, or the first would not wait for the others.
    """
    stream = f"{scope}/flights"
    backwards = flights[::-1].groupby("origin")["departed"]
    landings = flights.assign(hour=flights["landed"] // HOUR_MS, earliest=backwards.cummin())
    with ExitStack() as stack:
        writers = {
            origin: stack.enter_context(Writer(url, stream, str(origin)))
            for origin in flights["origin"].unique()
        }
        for writer in writers.values():
            writer.open()
        for (_, origin), landed in landings.groupby(["hour", "origin"]):
            writers[origin].note_time(int(landed["earliest"].iloc[0]))
            writers[origin].write_many(
                [json.dumps({"delay": delay}) for delay in landed["delay"]],
                keys=list(landed["origin"]),
                event_times=[int(time) for time in landed["departed"]],
            )
    httpx.post(f"{url}/v1/streams/{stream}/seal").raise_for_status()


def with_pandas(flights: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Compute what the streams of the jobs shall be, from the flights alone."""
    ends = (flights["departed"] // HOUR_MS + 1) * HOUR_MS - 1
    hours = flights.groupby(["origin", ends.rename("at")])["delay"]
    by_hour = hours.agg(departures="count", minutes="sum").reset_index()

    day_ms = 24 * HOUR_MS
    by_hour["mean"] = by_hour["minutes"] / by_hour["departures"]
    days = by_hour.groupby(["origin", (by_hour["at"] // day_ms + 1) * day_ms])
    by_day = days.agg(
        departures=("departures", "sum"), minutes=("minutes", "sum"), worst_hour=("mean", "max")
    ).reset_index()
    by_day.insert(3, "mean_delay", by_day.pop("minutes") / by_day["departures"])
    bad = by_day[by_day["mean_delay"] > BAD_MINUTES].reset_index(drop=True)
    return {"hours": by_hour.drop(columns="mean"), "days": by_day, "alerts": bad}


def read_rows(url: str, stream: str, like: pd.DataFrame) -> pd.DataFrame:
    """Read a stream, in order of airport and time; one that is empty has the columns of another frame."""
    with StreamClient(url, stream) as client:
        tail = client.tail().tail
        pages = [page.batch for one in tail for page in client.read(one, 0, tail[one])]
    events = [event for page in pages for event in page.to_pylist()]
    if not events:
        return like.head(0)
    rows = pd.DataFrame(
        [{**json.loads(one["value"]), "at": one["event_time"]} for one in events]
    )
    return rows.sort_values(["origin", "at"], ignore_index=True)


def running_spark() -> SparkSession:
    """Start a small session with this interpreter."""
    quick_start()
    settings: dict[str, str | bool | float | int | None] = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # Files of checkpoints are renamed by Java; the default starts several processes for each.
        "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution"
        ".streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    }
    return SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()


def run(url: str, scope: str, names: Sequence[str], folder: Path) -> None:
    """Run jobs until the last of their targets has ended."""
    spark = running_spark()
    queries = [
        start(spark, JOBS[name], url=url, scope=scope, checkpoint=folder / name)
        for name in names
    ]
    for name, query in zip(names, queries, strict=True):
        with StreamClient(url, f"{scope}/{JOBS[name].target}") as client:
            while not client.describe().final:
                query.awaitTermination(1)  # raises what it failed with
    spark.stop()


def compare(url: str, scope: str, streams: Sequence[str], flights: pd.DataFrame) -> int:
    """Print streams, or where they begin, and whether they are as pandas computes them."""
    expected, is_wrong = with_pandas(flights), False
    for stream in streams:
        found = read_rows(url, f"{scope}/{stream}", expected[stream])
        differs = not found.equals(expected[stream])
        is_wrong = is_wrong or differs
        judgement = "NOT as pandas computes them" if differs else "as pandas computes them"
        print(f"{scope}/{stream}: {len(found)} rows, {judgement}")
        print(found.head(6).to_string(index=False) if len(found) else "(none)")
    return int(is_wrong)


def main() -> int:
    """Run the chain until its last stream has ended, and compare with pandas."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8470")
    parser.add_argument("--scope", default="chain")
    parser.add_argument("--folder", type=Path, default=Path("chained-jobs"))
    parser.add_argument("--days", type=int, default=3)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    asked = parser.parse_args()

    flights = of_first_days(read_flights(), asked.days)
    create_streams(asked.url, asked.scope)
    with StreamClient(asked.url, f"{asked.scope}/flights") as client:
        is_written = client.describe().final
    if not is_written:
        write_flights(asked.url, asked.scope, flights)
    run(asked.url, asked.scope, asked.jobs, asked.folder)
    return compare(asked.url, asked.scope, [JOBS[name].target for name in asked.jobs], flights)


if __name__ == "__main__":
    sys.exit(main())
