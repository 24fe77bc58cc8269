"""Sessions of Spark as tests need them: small, in UTC, with state in RocksDB, and without a page."""

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

STATE_STORE = "spark.sql.streaming.stateStore.providerClass"
_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "OFF",
    "spark.python.daemon.module": "tests.spark.daemon",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    STATE_STORE: "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def new_session(
    builder: SparkSession.Builder, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark, or Spark Connect, with further settings; its Python is that of the tests by default."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return builder.config(map={**_SETTINGS, **(settings or {})}).getOrCreate()
