"""A query that appends to a table batch by batch, as a test says, and what the table then says.

Its checkpoint is written by hand, so that no query of Spark has to start for each step.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_source.sink.job import TableOptions
from spark_source.sink.tables import TableSink
from tests.lake.lakes import Lake
from tests.lake.laws import Version, check, read
from tidegauge.tables import Note, complete_until, newest_note

TABLE = "t"
_SCHEMA = "key STRING, event_time TIMESTAMP"


class Job:
    """A query without state over one stream.

    Parameters
    ----------
    folder
        Of its checkpoint; who has the same one is the same query, started again.
    """

    def __init__(self, spark: SparkSession, lake: Lake, folder: Path, **how: Any) -> None:
        self._spark, self.checkpoint = spark, folder
        (folder / "offsets").mkdir(parents=True, exist_ok=True)
        (folder / "metadata").write_text(json.dumps({"id": folder.name}))
        told: dict[str, Any] = {"event_time": "event_time", "note_every_ms": 0}
        told |= {"table": lake.table(TABLE), "checkpoint": str(folder)} | lake.how | how
        options = TableOptions(**told)
        options.engine().create(spark, rows(spark).schema)
        self.sink = TableSink(options)
        self._number = len(list((folder / "offsets").iterdir()))

    def batch(self, *times: int, bound: int | None, again: bool = False) -> None:
        """Append rows with these times, behind which the sources have come to a bound."""
        self._number -= again
        number, self._number = self._number, self._number + 1
        end = json.dumps({"stream_id": "s", "bound": bound})
        entry = f'v1\n{{"batchWatermarkMs":0}}\n{end}'
        (self.checkpoint / "offsets" / str(number)).write_text(entry)
        keys = [f"{self.checkpoint.name}-{number}-{place}" for place in range(len(times))]
        self.sink(rows(self._spark, *zip(keys, times, strict=True)), number)


def rows(spark: SparkSession, *found: tuple[str, int]) -> DataFrame:
    """Make a frame of keys and times."""
    values = ", ".join(f"('{key}', timestamp_millis({at}))" for key, at in found)
    if not values:
        return spark.createDataFrame([], _SCHEMA)
    return spark.sql(f"SELECT * FROM VALUES {values} AS t(key, event_time)")


def until(lake: Lake) -> int | None:
    """Tell until when the table is complete."""
    return complete_until(lake.table(TABLE), catalog=lake.catalog)


def note_of(lake: Lake) -> Note:
    """Read the note that stands."""
    found = newest_note(lake.table(TABLE), catalog=lake.catalog)
    assert found is not None
    assert found.note is not None
    return found.note


def checked(lake: Lake) -> list[Version]:
    """Read the table's versions, and see that they keep the laws."""
    versions = read(lake, TABLE, "key", "event_time")
    check(versions)
    return versions


def times(lake: Lake) -> list[int]:
    """List the times of all rows, of a table that keeps the laws."""
    return sorted(time for one in checked(lake) for _, time in one.rows)
