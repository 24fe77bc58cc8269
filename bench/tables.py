"""Tables: `follow` over Delta against Spark's plain stream of it, a tick, and a backfill."""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from bench import servers
from bench.spark_batches import HOUR_MS, START_MS, processor_seconds_of, spark_session
from reader_client import StreamClient
from spark_source import follow, read_stream
from tidegauge.tables import note
from writer_client import Writer

_ROWS = int(os.environ.get("BENCH_ROWS", "1000000"))
_ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
_COMMITS = 20
_KEYS = 1_000
_DISORDER_MS = 2 * HOUR_MS
_VALUE = b"x" * 100
_STREAM = "bench/rides"
_PLAIN, _FOLLOWED = "plain windows over Delta, a commit a batch", "follow, a commit a batch"
_PLAIN_ONCE = "plain windows over Delta, all in one batch"
_STREAM_BACKFILL, _TABLE_BACKFILL = "backfill by read_stream", "backfill from the table, follow"


class Run(NamedTuple):
    """What a query took.

    Attributes
    ----------
    processor_s
        In Spark, in its Python, and in the service.
    windows
        How many came out.
    """

    processor_s: float
    windows: int


def measure() -> Iterator[tuple[str, str, str]]:
    """Count the same rows by hour, in turn, each to the end of what is there.

    A short form: ``BENCH_ROWS=100000 BENCH_ROUNDS=1``.
    """
    spark = spark_session(_with_delta())
    with tempfile.TemporaryDirectory() as folder, servers.service(Path(folder)) as url:
        table = f"{folder}/rides"
        _fill(table, url)
        ways: dict[str, Callable[[str], DataFrame]] = {
            _PLAIN: lambda _: _plain(spark, table, files=1),
            _FOLLOWED: lambda to: _followed(spark, table, to, files=1),
            _PLAIN_ONCE: lambda _: _plain(spark, table, files=_COMMITS),
            _STREAM_BACKFILL: lambda _: read_stream(
                spark, url=url, stream=_STREAM, operators="windows"
            ),
            _TABLE_BACKFILL: lambda to: _followed(spark, table, to, files=_COMMITS),
        }
        rounds = [
            {
                name: _run(make, f"{folder}/{number}-{nth}")
                for nth, (name, make) in enumerate(ways.items())
            }
            for number in range(_ROUNDS + 1)
        ]
    spark.stop()
    del rounds[0]  # compiles the code, which is no part of the rate
    for name, goal in ((_FOLLOWED, " (≥ 0.8)"), (_TABLE_BACKFILL, "")):
        base = _PLAIN if name == _FOLLOWED else _STREAM_BACKFILL
        yield base, _rate(rounds, base), "the baseline"
        ratio = median(one[base].processor_s / one[name].processor_s for one in rounds)
        yield name, _rate(rounds, name), f"{ratio:.2f} of it{goal}"
    # In one batch there is hardly a tick, so that what is left is the start.
    start_s = median(
        one[_TABLE_BACKFILL].processor_s - one[_PLAIN_ONCE].processor_s for one in rounds
    )
    more_s = median(one[_FOLLOWED].processor_s - one[_PLAIN].processor_s for one in rounds)
    plain_s = median(one[_PLAIN].processor_s for one in rounds)
    yield "the start of follow", f"{start_s:.1f} s of processor", "once a query"
    tick_ms = 1_000 * (more_s - start_s) / (_COMMITS - 1)
    of_batch = f"beside {1_000 * plain_s / _COMMITS:.0f} ms of a plain batch"
    yield "a tick", f"{tick_ms:.0f} ms of processor", of_batch
    yield (
        _FOLLOWED,
        "without its start",
        f"{plain_s / (plain_s + more_s - start_s):.2f} of plain",
    )


def _rate(rounds: list[dict[str, Run]], name: str) -> str:
    runs = [one[name] for one in rounds]
    rate = _ROWS / median(run.processor_s for run in runs)
    return f"{rate:,.0f} rows per processor second, {runs[0].windows} windows"


def _with_delta() -> dict[str, str]:
    folder = os.environ.get("TIDEGAUGE_LAKE_JARS")
    jars = sorted(map(str, Path(folder).glob("*.jar"))) if folder else []
    if not jars:
        sys.exit("no jars of Delta in TIDEGAUGE_LAKE_JARS; run make bench-lake")
    return {
        "spark.jars": ",".join(jars),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def _load(spark: SparkSession, table: str, files: int) -> DataFrame:
    source = spark.readStream.format("delta").options(
        startingVersion=0, maxFilesPerTrigger=files
    )
    return source.load(table)


def _plain(spark: SparkSession, table: str, *, files: int) -> DataFrame:
    return _load(spark, table, files).withWatermark(
        "event_time", f"{_DISORDER_MS} milliseconds"
    )


def _followed(spark: SparkSession, table: str, checkpoint: str, *, files: int) -> DataFrame:
    return follow(
        _load(spark, table, files),
        event_time="event_time",
        table=table,
        checkpoint=checkpoint,
        operators="windows",
    )


def _run(make: Callable[[str], DataFrame], checkpoint: str) -> Run:
    """Count by hour, all that is there."""
    windows: list[int] = []

    def drain() -> None:
        hourly = make(checkpoint).groupBy(F.window("event_time", "1 hour")).count()
        (
            hourly.writeStream.outputMode("append")
            .option("checkpointLocation", checkpoint)
            .foreachBatch(lambda batch, _: windows.append(batch.count()))
            .trigger(availableNow=True)
            .start()
            .awaitTermination()
        )

    processor_s = processor_seconds_of(drain)
    return Run(processor_s, sum(windows))


def _fill(table: str, url: str) -> None:
    """Write the rows to the table, and to a stream, with the same times noted in both."""
    chance = np.random.default_rng(1)
    rows = _ROWS // _COMMITS
    with StreamClient(url, _STREAM) as client:
        client.create(segments=4)
        with Writer(url, _STREAM, "bench") as writer:
            for number in range(_COMMITS):
                begin = START_MS + number * HOUR_MS
                times = begin + chance.integers(0, _DISORDER_MS, rows)
                at = pa.array(times * 1_000).cast(pa.timestamp("us", tz="UTC"))
                keys = pa.array(f"k{one}" for one in chance.integers(0, _KEYS, rows))
                values = pa.array([_VALUE] * rows)
                until = begin + HOUR_MS
                noted = note(until, job="bench", final=number == _COMMITS - 1)
                write_deltalake(
                    table,
                    pa.table({"key": keys, "event_time": at, "value": values}),
                    mode="append",
                    commit_properties=CommitProperties(custom_metadata=noted),
                )
                writer.write_many(values, keys=keys, event_times=at)
                writer.note_time(until)
            writer.flush()
        client.seal()
