"""One Spark session for all tests, and streams that tests feed step by step."""

import os
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.kafka_jars import connector_jars
from tests.quick_spark import quick_environment
from tests.server import ServerProcess
from tests.spark.feed import Feed

os.environ["PYSPARK_PYTHON"] = sys.executable
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.sql.streaming.noDataProgressEventInterval", "100")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in quick_environment().items():
            patch.setenv(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def kafka_spark(spark: SparkSession) -> SparkSession:
    """The one session, which can then read Kafka with Spark's own connector."""
    for jar in connector_jars():
        spark.sql(f"ADD JAR '{jar}'")
    return spark


@pytest.fixture
def feed(shared_server: ServerProcess) -> Iterator[Feed]:
    with Feed(shared_server.url, f"spark/stream-{next(_NUMBERS)}") as one:
        one.create()
        yield one


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    return str(tmp_path / "checkpoint")
