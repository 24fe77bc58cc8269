"""A chain of tables, in a process of its own that is killed where it is told to be.

The events of a stream go to one table that notes time in its commits, and their hours to another
one that notes it to a stream of its own, too.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import append_to_table, follow, read_stream
from spark_source.sink.job import TableJob
from tests.lake.lakes import Lake, format_of_jars
from tests.spark.drivers import die_at
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until

MOMENTS = "behind silver", "before silver", "behind bronze", "before bronze"
"""Before or behind a commit of a query; silver's note to the service comes behind its commit."""


@dataclass(frozen=True)
class Chain:
    """Two queries: from a stream to the table bronze, and from there to silver with a stream."""

    lake: Lake
    url: str
    source: str
    target: str

    @property
    def checkpoints(self) -> Path:
        return self.lake.folder / f"{self.lake.space}-checkpoints"

    def run(self, spark: SparkSession) -> None:
        """Run both until silver is final, which the test's own timeout may end."""
        asked: dict[str, Any] = {"url": self.url, "stream": self.target}
        queries = [self._bronze(spark), self._silver(spark, asked)]
        try:
            while complete_until(self.lake.table("silver"), **asked) != END_OF_TIME:
                for error in filter(None, (query.exception() for query in queries)):
                    raise error
                sleep(0.05)
            for query in queries:
                query.processAllAvailable()
        finally:
            for query in queries:
                query.stop()

    def _bronze(self, spark: SparkSession) -> StreamingQuery:
        rides = read_stream(spark, url=self.url, stream=self.source, maxRowsPerTrigger=100)
        rows = rides.select("key", "event_time", "watermark", F.col("key").alias("of.ride"))
        return self._append(rows, "bronze", event_time="event_time")

    def _silver(self, spark: SparkSession, of_service: Mapping[str, Any]) -> StreamingQuery:
        followed = follow(
            self.lake.stream(spark, "bronze"),
            event_time="event_time",
            table=self.lake.table("bronze"),
            checkpoint=str(self.checkpoints / "silver"),
            operators="windows",
            catalog=self.lake.catalog,
        )
        hours = followed.groupBy(F.window("event_time", "1 hour")).count()
        rows = hours.select(F.col("window.start").alias("hour"), "count")
        how = {"output_delay": "1 hour", "seal": True, **of_service}
        return self._append(rows, "silver", event_time="hour", **how)

    def _append(self, rows: DataFrame, name: str, **how: Any) -> StreamingQuery:
        how |= {"checkpoint": str(self.checkpoints / name), "note_every": "0 ms", "job": name}
        return append_to_table(rows, self.lake.table(name), **self.lake.how, **how)


def _be_fragile() -> None:
    """Die where the environment says."""
    query: Any = TableJob
    append = query._append

    def dies(job: TableJob, *given: Any) -> None:
        die_at(f"before {job._options.job}")
        append(job, *given)
        die_at(f"behind {job._options.job}")

    query._append = dies


if __name__ == "__main__":
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _folder, _space, *_streams = sys.argv[1:]
    _be_fragile()
    _chain = Chain(Lake(format_of_jars(), Path(_folder), _space), *_streams)
    _chain.run(_chain.lake.session())
