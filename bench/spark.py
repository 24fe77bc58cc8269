"""The Spark source against a Python source that yields the same batches from memory."""

import time
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench.harness import Row, in_turn, service, sized
from bench.queries import read_all, spark_session
from reader_client import Events, StreamClient
from spark_source import TidegaugeDataSource
from spark_source.columns import SCHEMA
from spark_source.logs.embedded import run_of
from spark_source.options.load import Options
from spark_source.source.partitions import SegmentPartition
from spark_source.source.rows import rows_of
from tidegauge.wire.columns import STORED_SCHEMA
from writer_client import Writer

_EVENTS = sized(1_000_000)
_SEGMENTS = 4
_ROUNDS = 9
_STREAM = "bench/spark"
_FIRST_TIME = 1_700_000_000_000
_VALUE = b"x" * 100
_BATCH_ROWS = sized(31_250)


def measure() -> Iterator[Row]:
    """Read the same rows from both sources, in turn, into a sink that does nothing."""
    with service() as (url, _), spark_session() as spark:
        with StreamClient(url, _STREAM) as client:
            client.create(segments=_SEGMENTS)
        with Writer(url, _STREAM, "bench") as writer:
            for number in range(_EVENTS):
                writer.write(_VALUE, key=str(number % 1_000), event_time=_FIRST_TIME + number)
        spark.dataSource.register(TidegaugeDataSource)
        spark.dataSource.register(MemorySource)
        ours = spark.read.format("tidegauge").options(url=url, stream=_STREAM).load()
        memory = spark.read.format("memory-batches").load()
        ways = {"memory": lambda: _seconds(memory), "tidegauge": lambda: _seconds(ours)}
        # The first round compiles the code, which is no part of the rate.
        seconds = in_turn(ways, rounds=_ROUNDS, warm_up=1)
    yield (
        "memory, Python source",
        f"{_EVENTS / seconds.median('memory'):,.0f} rows/s",
        "the ceiling",
    )
    yield (
        "tidegauge",
        f"{_EVENTS / seconds.median('tidegauge'):,.0f} rows/s",
        f"{seconds.ratio('memory', 'tidegauge'):.2f} of memory (≥ 0.8)",
    )


def _seconds(df: DataFrame) -> float:
    started = time.perf_counter()
    read_all(df)
    return time.perf_counter() - started


class MemorySource(DataSource):
    """Yields batches of the same shape from memory."""

    @classmethod
    def name(cls) -> str:
        """Name the format."""
        return "memory-batches"

    def schema(self) -> StructType:
        """Use the columns of the real source."""
        return SCHEMA

    def reader(self, schema: StructType) -> "MemoryReader":  # noqa: ARG002 (it is fixed)
        """Read from memory."""
        return MemoryReader()


class MemoryReader(DataSourceReader):
    """Has as many partitions of equal batches as the stream has segments."""

    def partitions(self) -> list[InputPartition]:
        """Return the partitions."""
        return [InputPartition(number) for number in range(_SEGMENTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one batch, as the stream has it, again and again."""
        columns = {
            "key": [str(number % 1_000) for number in range(_BATCH_ROWS)],
            "event_time": range(_FIRST_TIME, _FIRST_TIME + _BATCH_ROWS),
            "value": [_VALUE] * _BATCH_ROWS,
            "append_time": [_FIRST_TIME] * _BATCH_ROWS,
            "writer": ["bench"] * _BATCH_ROWS,
        }
        events = pa.RecordBatch.from_pydict(columns, STORED_SCHEMA)
        options = Options(url="http://127.0.0.1:8470", stream=_STREAM)
        partition = SegmentPartition(options, "", 0, 0, _BATCH_ROWS)
        batch = rows_of(run_of(Events(0, 0, events)), partition)
        for _ in range(_EVENTS // _SEGMENTS // _BATCH_ROWS):
            yield batch
