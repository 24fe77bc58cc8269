"""How Spark writes a table of some format."""

from collections.abc import Mapping
from typing import Literal, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.types import StructType

from spark_source.errors import InvalidOptionError
from tidegauge.tables.notes import Note

Format = Literal["delta", "iceberg"]
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_WAP = "spark.wap.id", "spark.wap.branch"
"""With them Iceberg commits to no branch, or to another one."""


class Engine(Protocol):
    """How Spark writes a table of some format."""

    def check(self, spark: SparkSession) -> None:
        """Raise `InvalidOptionError` if the session cannot write it."""

    def create(self, spark: SparkSession, schema: StructType) -> None:
        """Create the table, unless it is there."""

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:
        """Make the options of a write that commits a note, and its batch, if it has one, once."""

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        """Commit rows, or none, with the options."""

    def newest_version(self, spark: SparkSession) -> int:
        """Ask the engine that commits for the newest version."""


class Delta:
    """Spark's writer of Delta."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check(self, spark: SparkSession) -> None:
        """Check nothing: a path needs no catalog."""

    def create(self, spark: SparkSession, schema: StructType) -> None:
        spark.createDataFrame([], schema).write.format("delta").mode("ignore").save(self._path)

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:
        own = spark.conf.get(_USER_METADATA, None)
        try:
            metadata = note.to_metadata(own)
        except ValueError as error:
            raise InvalidOptionError(_USER_METADATA, str(error)) from None
        transaction, number = str(note.query), note.batch
        if number is None:
            # Without a transaction that is new Delta leaves out a commit that has no rows.
            transaction, number = f"{note.query}/take-over", self.newest_version(spark)
        return {
            "userMetadata": metadata,
            "txnAppId": transaction,
            "txnVersion": str(number),
        }

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        frame.write.format("delta").mode("append").options(**options).save(self._path)

    def newest_version(self, spark: SparkSession) -> int:
        # As a string: delta.`path` takes no relative one.
        path = self._path.replace("\\", "\\\\").replace("'", "\\'")
        newest = spark.sql(f"DESCRIBE HISTORY '{path}' LIMIT 1").first()
        assert newest is not None  # noqa: S101 (a table has a first commit)
        return int(newest["version"])


class Iceberg:
    """Spark's writer of Iceberg."""

    def __init__(self, name: str) -> None:
        self._name = name

    def check(self, spark: SparkSession) -> None:
        catalog = self._name.partition(".")[0]
        if spark.conf.get(f"spark.sql.catalog.{catalog}", None) is None:
            cure = f"set spark.sql.catalog.{catalog}, or correct catalog['name']"
            raise InvalidOptionError("catalog", f"Spark knows none named {catalog!r}; {cure}")
        for name in _WAP:
            if spark.conf.get(name, None) is not None:
                cure = "is set: commits would not go to branch main; unset it"
                raise InvalidOptionError(name, cure)

    def create(self, spark: SparkSession, schema: StructType) -> None:
        if not spark.catalog.tableExists(self._name):
            spark.createDataFrame([], schema).writeTo(self._name).using("iceberg").create()

    def options(self, spark: SparkSession, note: Note) -> dict[str, str]:  # noqa: ARG002 (as Delta)
        return {f"snapshot-property.{key}": one for key, one in note.to_summary().items()}

    def append(self, frame: DataFrame, options: Mapping[str, str]) -> None:
        frame.writeTo(self._name).options(**options).append()

    def newest_version(self, spark: SparkSession) -> int:
        entries = spark.table(f"{self._name}.metadata_log_entries")
        newest = entries.agg(F.max("latest_sequence_number")).first()
        assert newest is not None  # noqa: S101 (an aggregate has a row)
        return int(newest[0] or 0)


def make_table(engine: Engine, spark: SparkSession, schema: StructType) -> None:
    """Create a table, unless it is there.

    Whoever starts a query and the query's first batch do so at once: the loser's error is another
    one in each format, and when it tries again the table is there.
    """
    try:
        engine.create(spark, schema)
    except Exception:  # noqa: BLE001 (raised again if it is something else)
        engine.create(spark, schema)
