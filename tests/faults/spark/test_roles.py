"""Each Python process of a query loads what its role needs: they live for a moment, and are many."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyspark
import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from spark_source import TidegaugeDataSource
from spark_source.following.tick_source import TickDataSource
from tests.linked import ROOT
from tests.spark.feed import Feed

NO_ROLE = (
    "controller",
    "matplotlib",
    "pandas",
    "spark_source.progress.listener",
    "spark_source.operators.process",
    "spark_source.progress.report",
    "spark_source.frames.watermark",
    "spark_source.operators.windowed",
    "spark_source.operators",
    "spark_source.processing",
    "tidegauge.aggregator",
    "tidegauge.aggregation.clocks",
    "tidegauge.aggregation.writers",
)
SERVICE = (
    "asyncio",
    "httpx",
    "pydantic",
    "reader_client._stream",
    "tenacity",
    "tidegauge.client.transport",
    "tidegauge.wire",
)
SINK = (
    "spark_source.checkpoints.checkpoint",
    "spark_source.sink.sink",
    "spark_source.sink.target",
    "writer_client",
)
ROWS = ("confluent_kafka", "pyarrow.compute", "spark_source.source.rows")


class Done(NamedTuple):
    answer: str
    modules: list[str]

    def loaded(self, *names: str) -> list[str]:
        """List what was loaded of these packages and modules."""
        inside = tuple(f"{name}." for name in names)
        return [one for one in self.modules if f"{one}.".startswith(inside)]


def _do(role: str, sent: Any) -> Done:
    command = [sys.executable, "-m", "tests.spark.roles", role]
    written = cloudpickle.dumps(sent).hex()  # type: ignore[no-untyped-call]
    told = subprocess.run(
        command, input=written, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True
    )
    answer, *modules = told.stdout.splitlines()
    return Done(answer, modules)


def test_each_process_of_the_source_loads_what_its_role_needs(feed: Feed) -> None:
    feed.write(0, 1, 2)
    source = TidegaugeDataSource(feed.options)
    of_tasks = _do("plan_reads", source)
    assert "spark_source.data_source" in of_tasks.modules
    assert of_tasks.loaded(*NO_ROLE, *SERVICE, *SINK, *ROWS) == []
    of_batches = _do("plan_batches", source)
    assert "httpx" in of_batches.modules
    assert of_batches.loaded(*NO_ROLE, *SINK, *ROWS) == []
    reads, parts = (
        cloudpickle.loads(bytes.fromhex(done.answer)) for done in (of_tasks, of_batches)
    )
    done = _do("read", (reads, parts))
    assert done.answer == "4"  # a tick comes with them
    assert done.loaded(*NO_ROLE, *SINK, "confluent_kafka", "reader_client._group") == []


def test_a_process_that_reads_a_tick_loads_no_client() -> None:
    options = {
        "url": "http://127.0.0.1:1",
        "stream": "shop/orders",
        "topic": "orders",
        "checkpoint": "/nowhere",
    }
    reader = TickDataSource(options).streamReader(None)  # type: ignore[arg-type]
    start = {"stream_id": "s", "topic": "orders"}
    parts = reader.partitions(start, start | {"bound": 1})
    done = _do("read", (reader.read, parts))
    assert done.answer == "1"
    assert (
        done.loaded(*NO_ROLE, *SERVICE, "writer_client", "spark_source.sink.sink", *ROWS) == []
    )


def test_a_process_of_a_sink_loads_no_reader(feed: Feed, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "one-query"}))
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text('v1\n{"batchWatermarkMs":0}\n{"rows":1}')
    source = TidegaugeDataSource({**feed.options, "checkpointLocation": str(tmp_path)})
    schema = StructType(
        [
            StructField("key", StringType()),
            StructField("event_time", LongType()),
            StructField("value", BinaryType()),
        ]
    )
    rows = pa.record_batch([["k"], [86_400_000], [b"v"]], names=schema.names)
    done = _do("write", (source, schema, rows))
    assert done.answer == "committed"
    assert done.loaded(*NO_ROLE, "reader_client._stream", "confluent_kafka") == []


@pytest.mark.every_spark
def test_a_process_of_spark_imports_the_installed_pyspark(spark: SparkSession) -> None:
    def find(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyspark  # noqa: PLC0415 (that of the process)

        yield pa.record_batch({"found": [pyspark.__file__]})

    (row,) = spark.range(1, numPartitions=1).mapInArrow(find, "found string").collect()
    assert row.found == pyspark.__file__


@pytest.mark.parametrize("package", ["reader_client", "spark_source", "writer_client"])
def test_a_package_loads_its_parts_as_they_are_asked_for(package: str) -> None:
    command = [sys.executable, "-c", f"import sys, {package}; print(*sys.modules)"]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, check=True)
    done = Done("", told.stdout.split())
    assert done.loaded(*NO_ROLE, *SERVICE, *ROWS, "pyspark", "pyarrow") == []
