"""One Spark session with Delta, for ``make test-lake``; without its jars there are no tests here."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

os.environ["PYSPARK_PYTHON"] = sys.executable
_JARS = os.environ.get("TIDEGAUGE_LAKE_JARS")
collect_ignore_glob = [] if _JARS else ["test_*.py"]


@pytest.fixture(scope="session")
def lake_spark() -> Iterator[SparkSession]:
    assert _JARS is not None
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, sorted(Path(_JARS).glob("*.jar")))))
        .config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
        .config(
            "spark.sql.catalog.spark_catalog",
            "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        )
        .config("spark.databricks.delta.snapshotPartitions", "1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
