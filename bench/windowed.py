"""Windows with allowed lateness against Spark's own windows, 100 000 rows a batch."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from bench.spark_batches import (
    HOUR_MS,
    START_MS,
    Query,
    seconds_of_batches,
    spark_session,
    write_batch,
)
from spark_source import count, mean, session, tumbling, windowed

_BATCHES = 8
_WARM_UP = 2
_ROUNDS = 3
_ROWS = 100_000
_KEYS = 1_000
_AGGREGATES = {"n": count(), "mean": mean("value")}


def measure() -> Iterator[tuple[str, str, str]]:
    """Run the queries in turn over the same files, a file a batch."""
    spark = spark_session()
    times = defaultdict[str, list[float]](list)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/rows"
        _write(Path(path))
        for number in range(_ROUNDS):
            for name, query in _QUERIES.items():
                checkpoint = f"{folder}/{name} {number}"
                times[name] += seconds_of_batches(
                    spark, query, path, checkpoint, warm_up=_WARM_UP
                )
    spark.stop()
    seconds = {name: median(of_batches) for name, of_batches in times.items()}
    for name, baseline, goal in _RATIOS:
        ratio = seconds[name] / seconds[baseline]
        measured = f"{seconds[name] * 1_000:.0f} ms a batch"
        against = f"{ratio:.2f} of {baseline}'s {seconds[baseline] * 1_000:.0f} ms"
        yield name, measured, against + (f" (≤ {goal})" if goal else "")


def _native(rows: DataFrame) -> DataFrame:
    window = F.window("event_time", "1 hour")
    return rows.groupBy("key", window).agg(F.count(F.lit(1)), F.avg("value"))


def _tumbling(rows: DataFrame, *, buckets: int | None = None) -> DataFrame:
    return windowed(
        rows,
        tumbling("1 hour"),
        key="key",
        aggregates=_AGGREGATES,
        allowed_lateness="30 minutes",
        accumulation="accumulating_and_retracting",
        buckets=buckets,
    ).output()


def _unmerged(rows: DataFrame) -> DataFrame:
    return _tumbling(rows.drop("late_below"))


def _sessions(rows: DataFrame) -> DataFrame:
    sessions = session("10 seconds")
    return windowed(
        rows, sessions, key="key", aggregates=_AGGREGATES, allowed_lateness="30 minutes"
    ).output()


_NATIVE = "Spark's own windows"
_QUERIES: dict[str, Query] = {
    _NATIVE: _native,
    "tumbling windows with lateness and retractions": _tumbling,
    "the same, 4 buckets": partial(_tumbling, buckets=4),
    "the same, 64 buckets": partial(_tumbling, buckets=64),
    "the same, without late_below": _unmerged,
    "sessions with lateness": _sessions,
}
_RATIOS = [
    ("tumbling windows with lateness and retractions", _NATIVE, 2),
    ("the same, 64 buckets", "the same, 4 buckets", 1.3),
    ("the same, without late_below", _NATIVE, None),
    ("sessions with lateness", _NATIVE, None),
]


def _write(folder: Path) -> None:
    """Write batches whose rows are in disorder over two hours, of which the next closes one."""
    chance = np.random.default_rng(1)
    for number in range(_BATCHES):
        times = START_MS + number * HOUR_MS + chance.integers(0, 2 * HOUR_MS, _ROWS)
        write_batch(folder, number, keys=chance.integers(0, _KEYS, _ROWS), times_ms=times)
