"""The Spark source against a Python source that yields the same batches from memory."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import httpx
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench import servers
from reader_client import Events
from spark_source import TidegaugeDataSource
from spark_source.columns import SCHEMA
from spark_source.logs.embedded import run_of
from spark_source.options.load import Options
from spark_source.source.partitions import SegmentPartition
from spark_source.source.rows import rows_of
from tidegauge.wire.columns import STORED_SCHEMA
from writer_client import Writer

_EVENTS = 1_000_000
_SEGMENTS = 4
_ROUNDS = 9
_STREAM = "bench/spark"
_FIRST_TIME = 1_700_000_000_000
_VALUE = b"x" * 100


def measure() -> Iterator[tuple[str, str, str]]:
    """Read the same rows from three sources, in turn, into a sink that does nothing."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    with tempfile.TemporaryDirectory() as folder, servers.service(Path(folder)) as url:
        settings = {"segments": _SEGMENTS}
        httpx.put(f"{url}/v1/streams/{_STREAM}", json=settings).raise_for_status()
        with Writer(url, _STREAM, "bench") as writer:
            for number in range(_EVENTS):
                writer.write(_VALUE, key=str(number % 1_000), event_time=_FIRST_TIME + number)
        spark.dataSource.register(TidegaugeDataSource)
        spark.dataSource.register(MemorySource)
        ours = spark.read.format("tidegauge").options(url=url, stream=_STREAM).load()
        parquet = str(Path(folder) / "rows")
        ours.write.parquet(parquet)
        sources = [
            ours,
            spark.read.format("memory-batches").load(),
            spark.read.parquet(parquet),
        ]
        for df in sources:
            _seconds(df)  # compiles the code, which is no part of the rate
        rounds = [[_seconds(df) for df in sources] for _ in range(_ROUNDS)]
    spark.stop()
    rates = [_EVENTS / median(column) for column in zip(*rounds, strict=True)]
    of_memory = median(memory / ours for ours, memory, _ in rounds)
    of_parquet = median(parquet / ours for ours, _, parquet in rounds)
    yield "memory, Python source", f"{rates[1]:,.0f} rows/s", "the ceiling"
    yield (
        "tidegauge",
        f"{rates[0]:,.0f} rows/s",
        f"{of_memory:.2f} of memory (goal ≥ 0.8), {of_parquet:.2f} of Parquet",
    )


def _seconds(df: DataFrame) -> float:
    started = time.perf_counter()
    df.write.format("noop").mode("overwrite").save()
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
    """Four partitions of equal batches."""

    def partitions(self) -> list[InputPartition]:
        """Make as many partitions as the stream has segments."""
        return [InputPartition(number) for number in range(_SEGMENTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one batch, as the stream has it, again and again."""
        rows = 31_250
        events = pa.RecordBatch.from_pydict(
            {
                "key": [str(number % 1_000) for number in range(rows)],
                "event_time": range(_FIRST_TIME, _FIRST_TIME + rows),
                "value": [_VALUE] * rows,
                "append_time": [_FIRST_TIME] * rows,
                "writer": ["bench"] * rows,
            },
            STORED_SCHEMA,
        )
        options = Options(url="http://127.0.0.1:8470", stream=_STREAM)
        partition = SegmentPartition(options, "", 0, 0, rows)
        batch = rows_of(run_of(Events(0, 0, events)), partition)
        for _ in range(_EVENTS // _SEGMENTS // rows):
            yield batch
