"""The Spark source against a Python source that yields the same batches from memory."""

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from bench import servers
from spark_source import TidegaugeDataSource
from writer_client import Writer

_EVENTS = 1_000_000
_SEGMENTS = 4
_ROUNDS = 3
_STREAM = "bench/spark"


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
                time_ms = 1_700_000_000_000 + number
                writer.write(b"x" * 100, key=str(number % 1_000), event_time=time_ms)
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
        rounds = [[_seconds(df) for df in sources] for _ in range(_ROUNDS)]
    spark.stop()
    best = [min(column) for column in zip(*rounds, strict=True)]
    rates = [_EVENTS / seconds for seconds in best]
    yield "memory, Python source", f"{rates[1]:,.0f} rows/s", "the ceiling"
    yield (
        "tidegauge",
        f"{rates[0]:,.0f} rows/s",
        f"{rates[0] / rates[1]:.2f} of memory (goal ≥ 0.5), {rates[0] / rates[2]:.2f} of Parquet",
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
        return TidegaugeDataSource({}).schema()

    def reader(self, schema: StructType) -> "MemoryReader":  # noqa: ARG002 (it is fixed)
        """Read from memory."""
        return MemoryReader()


class MemoryReader(DataSourceReader):
    """Four partitions of equal batches."""

    def partitions(self) -> list[InputPartition]:
        """Make as many partitions as the stream has segments."""
        return [InputPartition(number) for number in range(_SEGMENTS)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:  # noqa: ARG002 (all alike)
        """Yield one batch again and again."""
        from spark_source._rows import ARROW_SCHEMA, tick_row  # noqa: PLC0415

        rows = 31_250
        batch = pa.Table.from_batches([tick_row(0, 0)] * rows, ARROW_SCHEMA).combine_chunks()
        value = pa.repeat(pa.scalar(b"x" * 100, pa.binary()), rows)
        at = ARROW_SCHEMA.get_field_index("value")
        filled = batch.set_column(at, ARROW_SCHEMA.field("value"), value).to_batches()[0]
        for _ in range(_EVENTS // _SEGMENTS // rows):
            yield filled
