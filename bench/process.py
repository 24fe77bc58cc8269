"""Process functions against plain ``transformWithState`` and native aggregation, batch by batch."""

import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.spark_batches import (
    HOUR_MS,
    START_MS,
    Query,
    processor_seconds,
    seconds_of_batches,
    spark_session,
    write_batch,
)
from spark_source import process
from spark_source.processing import Context, Event, EventTimeProcessor
from spark_source.processing.keys import Key

_ROUNDS = 3
_OUTPUT = "key string, time_ms long, value double"
_BATCHES_OF_FLOOR = 20


class Echo(EventTimeProcessor):
    """Emits every event."""

    output = _OUTPUT

    def on_event(self, key: Key, event: Event, ctx: Context) -> None:
        """Emit it."""
        ctx.emit(key, ctx.time_ms, event.value)


class PlainEcho(StatefulProcessor):
    """Emits every row as it comes: late or not, in no order, without state."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Ask for no state."""

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,  # noqa: ANN401 (as Spark has it)
        rows: Iterator[Any],
        timerValues: Any,  # noqa: ANN401, ARG002, N803 (as Spark has it)
    ) -> Iterator[Row]:
        """Emit rows of a key."""
        for row in rows:
            time_ms = int(row["event_time"].timestamp() * 1_000)
            yield Row(key=key[0], time_ms=time_ms, value=row["value"])


@dataclass(frozen=True)
class _Shape:
    """What a batch is made of.

    Attributes
    ----------
    keys, events
        How many, and of each.
    batches, warm_up
        How many are run, and how many of them are not counted.
    queries
        What is run over them.
    """

    keys: int
    events: int
    batches: int
    warm_up: int
    queries: dict[str, Query]


def measure() -> Iterator[tuple[str, str, str]]:
    """Run the queries in turn over the same files, a file a batch."""
    spark = spark_session()
    with tempfile.TemporaryDirectory() as folder:
        for name, shape in _SHAPES.items():
            _write(Path(folder) / name, shape)
        seconds = _medians(spark, folder)
        yield from _ratios(seconds)
        yield _floor(spark, folder)
    spark.stop()


def _process(rows: DataFrame, *, buckets: int | None = None) -> DataFrame:
    return process(rows, Echo(), columns=["value"], buckets=buckets).output()


def _plain(rows: DataFrame) -> DataFrame:
    of_keys = rows.select("key", "event_time", "value").groupBy("key")
    return of_keys.transformWithState(PlainEcho(), _OUTPUT, "Append", "EventTime")


def _aggregated(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count(F.lit(1)), F.sum("value"))


def _windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key", F.window("event_time", "1 hour")).agg(F.sum("value"))


_SHAPES = {
    "10 000 keys, 1 event each": _Shape(
        10_000, 1, 5, 2, {"plain": _plain, "process": _process}
    ),
    "1 000 keys, 30 events each": _Shape(
        1_000, 30, 6, 3, {"plain": _plain, "process": _process}
    ),
    "100 000 keys, 1 event each": _Shape(
        100_000,
        1,
        8,
        3,
        {
            "native": _aggregated,
            "process": _process,
            "4 buckets": partial(_process, buckets=4),
            "64 buckets": partial(_process, buckets=64),
        },
    ),
}
_GOALS = (
    ("10 000 keys, 1 event each", "process", "plain", 0.25),
    ("1 000 keys, 30 events each", "process", "plain", 0.7),
    ("100 000 keys, 1 event each", "process", "native", 2.5),
    ("100 000 keys, 1 event each", "64 buckets", "4 buckets", 1.3),
)


def _write(folder: Path, shape: _Shape) -> None:
    """Spread the events of a batch, in disorder, over the hour that the next batch releases."""
    chance = np.random.default_rng(1)
    keys = np.repeat(np.arange(shape.keys), shape.events)
    for number in range(shape.batches):
        times = START_MS + (number + 1) * HOUR_MS + chance.integers(0, HOUR_MS, len(keys))
        write_batch(folder, number, keys=chance.permutation(keys), times_ms=times)


def _medians(spark: SparkSession, folder: str) -> dict[tuple[str, str], float]:
    """Run each query of each shape in turn, and again; a round later rows have other neighbours."""
    times = defaultdict[tuple[str, str], list[float]](list)
    for number in range(_ROUNDS):
        for name, shape in _SHAPES.items():
            for label, query in shape.queries.items():
                times[name, label] += seconds_of_batches(
                    spark,
                    query,
                    f"{folder}/{name}",
                    f"{folder}/{name} {label} {number}",
                    warm_up=shape.warm_up,
                    mode="update" if label == "native" else "append",
                )
    return {name: median(of_batches) for name, of_batches in times.items()}


def _ratios(seconds: dict[tuple[str, str], float]) -> Iterator[tuple[str, str, str]]:
    for shape, label, other, goal in _GOALS:
        one, baseline = seconds[shape, label], seconds[shape, other]
        yield (
            f"{shape}: {label} against {other}",
            f"{one * 1_000:.0f} ms a batch against {baseline * 1_000:.0f} ms",
            f"{one / baseline:.2f} (≤ {goal})",
        )


def _floor(spark: SparkSession, folder: str) -> tuple[str, str, str]:
    """Compare what a batch of ten rows costs."""
    shape = _Shape(10, 1, _BATCHES_OF_FLOOR, 0, {"native": _windows, "process": _process})
    _write(Path(folder) / "floor", shape)
    spent = defaultdict[str, list[float]](list)
    for number in range(_ROUNDS):
        for label, query in shape.queries.items():
            checkpoint = f"{folder}/floor {label} {number}"
            total = processor_seconds(spark, query, f"{folder}/floor", checkpoint)
            spent[label].append(total / _BATCHES_OF_FLOOR)
    process, native = median(spent["process"]), median(spent["native"])
    return (
        "floor: 10 rows a batch, above native windows",
        f"{process * 1_000:.0f} ms of processor time a batch against {native * 1_000:.0f} ms",
        f"{process - native:.2f} s above (≤ 0.5)",
    )
