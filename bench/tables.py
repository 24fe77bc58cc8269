"""Tables: `follow` over Delta against Spark's plain stream of it, a tick, and a backfill."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from bench.harness import Rounds, Row, in_turn, processor_seconds, service, sized
from bench.queries import HOUR_MS, ROCKSDB, START_MS, drain, spark_session, timestamps
from reader_client import StreamClient
from spark_source import follow, read_stream
from tidegauge.tables import note
from writer_client import Writer

_ROWS = sized(1_000_000)
_ROUNDS = 5
_COMMITS = 20
_KEYS = 1_000
_DISORDER_MS = 2 * HOUR_MS
_VALUE = b"x" * 100
_STREAM = "bench/rides"
_PLAIN, _FOLLOWED = "plain windows over Delta, a commit a batch", "follow, a commit a batch"
_PLAIN_ONCE = "plain windows over Delta, all in one batch"
_STREAM_BACKFILL, _TABLE_BACKFILL = "backfill by read_stream", "backfill from the table, follow"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def measure() -> Iterator[Row]:
    """Count the same rows by hour, in turn, each to the end of what is there.

    All times are of the processor: in Spark, in its Python, and in the service.
    """
    with service() as (url, folder), spark_session(ROCKSDB | _DELTA | _jars()) as spark:
        table = f"{folder}/rides"
        _fill(table, url)

        def load(files: int) -> DataFrame:
            options = {"startingVersion": 0, "maxFilesPerTrigger": files}
            return spark.readStream.format("delta").options(**options).load(table)

        def plain(files: int) -> DataFrame:
            return load(files).withWatermark("event_time", f"{_DISORDER_MS} milliseconds")

        def followed(files: int, checkpoint: str) -> DataFrame:
            return follow(
                load(files),
                event_time="event_time",
                table=table,
                checkpoint=checkpoint,
                operators="windows",
            )

        def from_stream() -> DataFrame:
            return read_stream(spark, url=url, stream=_STREAM, operators="windows")

        ways: dict[str, Callable[[str], DataFrame]] = {
            _PLAIN: lambda _: plain(1),
            _FOLLOWED: lambda checkpoint: followed(1, checkpoint),
            _PLAIN_ONCE: lambda _: plain(_COMMITS),
            _STREAM_BACKFILL: lambda _: from_stream(),
            _TABLE_BACKFILL: lambda checkpoint: followed(_COMMITS, checkpoint),
        }

        def count_by_hour(make: Callable[[str], DataFrame]) -> None:
            checkpoint = mkdtemp(dir=folder)
            drain(
                make(checkpoint).groupBy(F.window("event_time", "1 hour")).count(), checkpoint
            )

        costs = {
            name: partial(processor_seconds, partial(count_by_hour, make))
            for name, make in ways.items()
        }
        # The first round compiles the code, which is no part of the rate.
        seconds = in_turn(costs, rounds=_ROUNDS, warm_up=1)
    for name, baseline, goal in (
        (_FOLLOWED, _PLAIN, " (≥ 0.8)"),
        (_TABLE_BACKFILL, _STREAM_BACKFILL, ""),
    ):
        yield baseline, _rate(seconds, baseline), "the baseline"
        yield name, _rate(seconds, name), f"{seconds.ratio(baseline, name):.2f} of it{goal}"
    yield from _parts(seconds)


def _rate(seconds: Rounds, name: str) -> str:
    return f"{_ROWS / seconds.median(name):,.0f} rows per processor second"


def _parts(seconds: Rounds) -> Iterator[Row]:
    """Divide what `follow` costs into its start and its ticks."""
    plain_s = seconds.median(_PLAIN)
    # In one batch there is hardly a tick, so that what is left is the start.
    start_s = seconds.median(_TABLE_BACKFILL) - seconds.median(_PLAIN_ONCE)
    ticks_s = seconds.median(_FOLLOWED) - plain_s - start_s
    yield "the start of follow", f"{start_s:.1f} s of processor", "once a query"
    yield (
        "a tick",
        f"{1_000 * ticks_s / (_COMMITS - 1):.0f} ms of processor",
        f"beside {1_000 * plain_s / _COMMITS:.0f} ms of a plain batch",
    )
    yield _FOLLOWED, "without its start", f"{plain_s / (plain_s + ticks_s):.2f} of plain"


def _jars() -> dict[str, str]:
    folder = os.environ.get("TIDEGAUGE_LAKE_JARS")
    jars = sorted(map(str, Path(folder).glob("*.jar"))) if folder else []
    if not jars:
        msg = "no jars of Delta in TIDEGAUGE_LAKE_JARS; run make bench-lake"
        raise RuntimeError(msg)
    return {"spark.jars": ",".join(jars)}


def _fill(table: str, url: str) -> None:
    """Write the rows to the table, and to a stream, with the same times noted in both."""
    chance = np.random.default_rng(1)
    rows = _ROWS // _COMMITS
    with StreamClient(url, _STREAM) as client:
        client.create(segments=4)
        with Writer(url, _STREAM, "bench") as writer:
            for number in range(_COMMITS):
                begin = START_MS + number * HOUR_MS
                times = timestamps(begin + chance.integers(0, _DISORDER_MS, rows))
                keys = pa.array(f"k{key}" for key in chance.integers(0, _KEYS, rows))
                values = pa.array([_VALUE] * rows)
                until = begin + HOUR_MS
                noted = note(until, job="bench", final=number == _COMMITS - 1)
                write_deltalake(
                    table,
                    pa.table({"key": keys, "event_time": times, "value": values}),
                    mode="append",
                    commit_properties=CommitProperties(custom_metadata=noted),
                )
                writer.write_many(values, keys=keys, event_times=times)
                writer.note_time(until)
            writer.flush()
        client.seal()
