"""A lake of one format: the Spark that writes it, and where its tables are for any reader."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_source.sink.engines import Format
from tests.spark.session import new_session
from tidegauge.tables.logs import TableLog, open_log

JARS = os.environ.get("TIDEGAUGE_LAKE_JARS", "")
"""Of one format; without them there are no tests of lakes."""
_CATALOG = "lake"
_FROM_FIRST: Mapping[str, Mapping[str, Any]] = {
    "delta": {"startingVersion": 0, "maxFilesPerTrigger": 1},
    "iceberg": {"streaming-max-files-per-micro-batch": 1},
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}
_ICEBERG = {
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    f"spark.sql.catalog.{_CATALOG}": "org.apache.iceberg.spark.SparkCatalog",
    f"spark.sql.catalog.{_CATALOG}.type": "jdbc",
    f"spark.sql.catalog.{_CATALOG}.jdbc.schema-version": "V1",
}


def format_of_jars() -> Format:
    """Tell of which format the jars are that there are."""
    return "iceberg" if list(Path(JARS).glob("iceberg-*.jar")) else "delta"


@dataclass(frozen=True)
class Lake:
    """Tables of one format below a folder; an Iceberg catalog is a file of SQLite there.

    Attributes
    ----------
    folder
        Of the whole lake, which one session of Spark knows.
    space
        Of the tables of one test.
    """

    format: Format
    folder: Path
    space: str = "tests"

    def session(self) -> SparkSession:
        """Start Spark, or take the one that runs."""
        own = {
            "spark.jars": ",".join(map(str, sorted(Path(JARS).glob("*.jar")))),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
        }
        return new_session(SparkSession.builder.master("local[2]"), {**self._settings, **own})

    def table(self, name: str) -> str:
        """Address a table as `append_to_table` and ``tidegauge.tables`` take it."""
        if self.format == "delta":
            return str(self.folder / self.space / name)
        return f"{self.space}.{name}"

    def sql(self, name: str) -> str:
        """Name a table in Spark's SQL."""
        if self.format == "delta":
            return f"delta.`{self.table(name)}`"
        return f"{_CATALOG}.{self.table(name)}"

    @cached_property
    def catalog(self) -> Mapping[str, str] | None:
        """The Iceberg catalog as pyiceberg takes it, by the name that Spark knows; None of Delta."""
        if self.format == "delta":
            return None
        return {
            "name": _CATALOG,
            "type": "sql",
            "uri": f"sqlite:///{self.folder / 'catalog.db'}",
            "warehouse": str(self.folder),
        }

    @property
    def how(self) -> dict[str, Any]:
        """Keywords of `append_to_table` and `commit_options`."""
        return {"format": self.format, "catalog": self.catalog}

    def log(self, name: str) -> TableLog:
        """Open a table's log."""
        return open_log(self.table(name), catalog=self.catalog)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """Read a table as it is now; a session keeps an Iceberg table for half a minute."""
        if self.format == "iceberg":
            spark.sql(f"REFRESH TABLE {self.sql(name)}")
        return spark.table(self.sql(name))

    def stream(self, spark: SparkSession, name: str, **options: Any) -> DataFrame:
        """Read a table as a stream, without options from its first commit, a file a batch."""
        given = options or _FROM_FIRST[self.format]
        name = self.table(name) if self.format == "delta" else self.sql(name)
        return spark.readStream.format(self.format).options(**given).load(name)

    def go_back(self, spark: SparkSession, name: str, commits: int) -> None:
        """Take back all but the first commits: RESTORE a Delta table, roll an Iceberg one back."""
        if self.format == "delta":
            spark.sql(f"RESTORE {self.sql(name)} TO VERSION AS OF {commits - 1}")
            return
        snapshots = self.read(spark, f"{name}.snapshots").orderBy("committed_at").collect()
        back = f"'{self.table(name)}', {snapshots[commits - 1]['snapshot_id']}"
        spark.sql(f"CALL {_CATALOG}.system.rollback_to_snapshot({back})")

    def compact(self, spark: SparkSession, name: str) -> None:
        """Make few files of many, with the rows as they are."""
        if self.format == "delta":
            spark.sql(f"OPTIMIZE {self.sql(name)}")
            return
        table = f"table => '{self.table(name)}', options => map('rewrite-all', 'true')"
        spark.sql(f"CALL {_CATALOG}.system.rewrite_data_files({table})")

    def drop(self, spark: SparkSession, name: str) -> None:
        """Remove a table, so that it can be made again."""
        spark.sql(f"DROP TABLE {self.sql(name)}")
        if self.format == "delta":
            rmtree(self.table(name), ignore_errors=True)

    @property
    def _settings(self) -> Mapping[str, str]:
        if self.format == "delta":
            return _DELTA
        database = self.folder / "catalog.db"
        return _ICEBERG | {
            f"spark.sql.catalog.{_CATALOG}.uri": f"jdbc:sqlite:{database}?busy_timeout=60000",
            f"spark.sql.catalog.{_CATALOG}.warehouse": str(self.folder),
        }
