"""Process functions against plain ``transformWithState`` and native aggregation, batch by batch."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Any, NamedTuple

import numpy as np
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench import harness
from bench.harness import in_turn, processor_seconds, sized
from bench.queries import (
    HOUR_MS,
    ROCKSDB,
    START_MS,
    Query,
    batch_seconds,
    drain,
    read_batches,
    spark_session,
    write_batch,
)
from spark_source import process
from spark_source.processing import Context, Event, EventTimeProcessor
from spark_source.processing.keys import Key

_ROUNDS = 3
_OUTPUT = "key string, time_ms long, value double"
_FLOOR_BATCHES = 20


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


def _process(rows: DataFrame, *, buckets: int | None = None) -> DataFrame:
    return process(rows, Echo(), columns=["value"], buckets=buckets).output()


def _plain(rows: DataFrame) -> DataFrame:
    keyed = rows.select("key", "event_time", "value").groupBy("key")
    return keyed.transformWithState(PlainEcho(), _OUTPUT, "Append", "EventTime")


def _aggregated(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").agg(F.count(F.lit(1)), F.sum("value"))


def _windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key", F.window("event_time", "1 hour")).agg(F.sum("value"))


class _Case(NamedTuple):
    """Batches, and two queries that are run over them."""

    keys: int
    events: int  # of each key in a batch
    batches: int
    warm_up: int  # batches that do not count
    way: str
    baseline: str
    goal: float


_AGGREGATION, _PLAIN = "groupBy.agg", "plain transformWithState"
_QUERIES: dict[str, Query] = {
    "process": _process,
    "4 buckets": partial(_process, buckets=4),
    "64 buckets": partial(_process, buckets=64),
    _AGGREGATION: _aggregated,
    _PLAIN: _plain,
}
_CASES = (
    _Case(sized(10_000), 1, 5, 2, "process", _PLAIN, 0.3),
    _Case(sized(1_000), 30, 6, 3, "process", _PLAIN, 0.7),
    _Case(sized(100_000), 1, 8, 3, "process", _AGGREGATION, 2.5),
    _Case(sized(100_000), 1, 8, 3, "64 buckets", "4 buckets", 1.3),
)


def measure() -> Iterator[harness.Row]:
    """Run the queries in turn over the same files, a file a batch."""
    with spark_session(ROCKSDB) as spark:
        for case in _CASES:
            with TemporaryDirectory() as folder:
                yield _compare(spark, case, Path(folder) / "rows")
        with TemporaryDirectory() as folder:
            yield _floor(spark, Path(folder) / "rows")


def _write(path: Path, keys: int, *, events: int, batches: int) -> None:
    """Spread the events of a batch, in disorder, over the hour that the next batch releases."""
    chance = np.random.default_rng(1)
    names = np.repeat(np.arange(keys), events)
    for number in range(batches):
        times = START_MS + (number + 1) * HOUR_MS + chance.integers(0, HOUR_MS, len(names))
        write_batch(path, number, keys=chance.permutation(names), times_ms=times)


def _compare(spark: SparkSession, case: _Case, path: Path) -> harness.Row:
    _write(path, case.keys, events=case.events, batches=case.batches)

    def seconds_of(name: str) -> float:
        mode = "update" if name == _AGGREGATION else "append"
        return batch_seconds(spark, _QUERIES[name], path, warm_up=case.warm_up, mode=mode)

    names = case.way, case.baseline
    seconds = in_turn({name: partial(seconds_of, name) for name in names}, rounds=_ROUNDS)
    return (
        f"{case.keys:,} keys, {case.events} events each: {' against '.join(names)}",
        " against ".join(f"{seconds.median(name) * 1_000:.0f} ms a batch" for name in names),
        f"{seconds.ratio(*names):.2f} (≤ {case.goal})",
    )


def _floor(spark: SparkSession, path: Path) -> harness.Row:
    """Compare what a batch of ten rows costs, the start of the query included."""
    _write(path, 10, events=1, batches=_FLOOR_BATCHES)

    def cost(query: Query) -> float:
        def run() -> None:
            drain(query(read_batches(spark, path)), mkdtemp(dir=path.parent))

        return processor_seconds(run) / _FLOOR_BATCHES

    ways = {"native": partial(cost, _windows), "process": partial(cost, _process)}
    seconds = in_turn(ways, rounds=_ROUNDS)
    ours, native = seconds.median("process"), seconds.median("native")
    return (
        "10 rows a batch: processor time above Spark's own windows",
        f"{ours * 1_000:.0f} ms against {native * 1_000:.0f} ms a batch",
        f"{ours - native:.2f} s above (≤ 0.5)",
    )
