"""Windows with allowed lateness against Spark's own windows, 100 000 rows a batch."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from bench.harness import Row, in_turn, sized
from bench.queries import (
    HOUR_MS,
    ROCKSDB,
    START_MS,
    Query,
    batch_seconds,
    spark_session,
    write_batch,
)
from spark_source import count, mean, session, tumbling, windowed

_BATCHES = 8
_WARM_UP = 2
_ROUNDS = 3
_ROWS = sized(100_000)
_KEYS = 1_000
_AGGREGATES = {"n": count(), "mean": mean("value")}


def _native(rows: DataFrame) -> DataFrame:
    window = F.window("event_time", "1 hour")
    return rows.groupBy("key", window).agg(F.count(F.lit(1)), F.avg("value"))


def _tumbling(rows: DataFrame) -> DataFrame:
    return windowed(
        rows,
        tumbling("1 hour"),
        key="key",
        aggregates=_AGGREGATES,
        allowed_lateness="30 minutes",
        accumulation="accumulating_and_retracting",
    ).output()


def _sessions(rows: DataFrame) -> DataFrame:
    sessions = session("10 seconds")
    return windowed(
        rows, sessions, key="key", aggregates=_AGGREGATES, allowed_lateness="30 minutes"
    ).output()


_SPARKS = "Spark's own windows"
_QUERIES: dict[str, tuple[Query, float]] = {  # with the goals
    _SPARKS: (_native, 1),
    "tumbling windows with lateness and retractions": (_tumbling, 1.3),
    "sessions with lateness": (_sessions, 1.75),
}


def measure() -> Iterator[Row]:
    """Run the queries in turn over the same files, a file a batch."""
    with TemporaryDirectory() as folder, spark_session(ROCKSDB) as spark:
        path = Path(folder) / "rows"
        _write(path)
        ways = {
            name: partial(batch_seconds, spark, query, path, warm_up=_WARM_UP)
            for name, (query, _) in _QUERIES.items()
        }
        seconds = in_turn(ways, rounds=_ROUNDS)
    for name, (_, goal) in _QUERIES.items():
        ratio = f"{seconds.ratio(name, _SPARKS):.2f} of Spark's (≤ {goal})"
        measured = f"{seconds.median(name) * 1_000:.0f} ms a batch"
        yield name, measured, "the baseline" if name == _SPARKS else ratio


def _write(folder: Path) -> None:
    """Write batches whose rows are in disorder over two hours, of which the next closes one."""
    chance = np.random.default_rng(1)
    for number in range(_BATCHES):
        times = START_MS + number * HOUR_MS + chance.integers(0, 2 * HOUR_MS, _ROWS)
        write_batch(folder, number, keys=chance.integers(0, _KEYS, _ROWS), times_ms=times)
