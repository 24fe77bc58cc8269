"""A query that appends to a table, in a process of its own that is killed where it is told to be."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

from spark_source import append_to_table, read_stream
from spark_source.sink.engines import Delta, Iceberg
from spark_source.sink.job import Plan, TableJob
from tests.lake.jobs import TABLE
from tests.lake.lakes import Lake, format_of_jars
from tests.spark.drivers import MOMENT, die_at
from tests.spark.feed import Feed
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import complete_until

OF_BATCHES = (
    "before the commit",
    "between the commit and the note to the service",
    "behind the note to the service",
)
AGAIN = "in a batch that is repeated"
OF_NOTES = ("before a withheld note", "behind a withheld note")
LATER_MS = 3_600_000
"""The source rises by so much at least without rows, so that its note is withheld."""


class Streams(NamedTuple):
    """What a query reads, and with a target the stream of its table, to which it notes."""

    url: str
    source: str
    target: str


def _be_fragile() -> None:
    """Die where the environment says."""
    job: Any = TableJob
    plan, note, now, soon = job.plan, job.note_to_service, job._commit_now, job.commit_soon

    def plans(self: Any, *batch: Any) -> Plan:
        made: Plan = plan(self, *batch)
        if made.is_known:
            die_at(AGAIN)
        return made

    def notes(self: Any, *batch: Any) -> None:
        if self._committed is not None:
            die_at(OF_BATCHES[1])
        note(self, *batch)
        if self._committed is not None:
            die_at(OF_BATCHES[2])

    def commits_soon(self: Any, *withheld: Any) -> None:
        self._committed_at = monotonic()  # however long ago that was on a busy machine
        soon(self, *withheld)

    def commits_now(self: Any, *withheld: Any) -> None:
        die_at(OF_NOTES[0])
        now(self, *withheld)
        die_at(OF_NOTES[1])

    job.plan, job.note_to_service = plans, notes
    job._commit_now, job.commit_soon = commits_now, commits_soon
    for engine in (Delta, Iceberg):
        append = engine.append

        def appends(
            self: Any, frame: DataFrame, options: Mapping[str, str], append: Any = append
        ) -> None:
            die_at(OF_BATCHES[0])
            append(self, frame, options)

        engine.append = appends  # type: ignore[method-assign]


def main(streams: Streams, lake: Lake, checkpoint: str) -> None:
    """Run the query until its table is final; where a note is to be withheld, have it withheld."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    _be_fragile()
    query = start(lake.session(), streams, lake, checkpoint)
    if os.environ[MOMENT] in OF_NOTES:
        query.processAllAvailable()
        batches = sum(1 for _ in Path(checkpoint).glob("commits/[0-9]*"))
        with Feed(streams.url, streams.source) as feed:
            feed.note(LATER_MS * batches)  # later than in the run before
        query.awaitTermination()
    finish(query, streams, lake)


def start(spark: SparkSession, streams: Streams, lake: Lake, checkpoint: str) -> StreamingQuery:
    """Count in windows."""
    url, source, target = streams
    rows = read_stream(
        spark, operators="windows", url=url, stream=source, maxEventTimePerTrigger="10 seconds"
    )
    counted = rows.groupBy("key", F.window("event_time", "5 seconds")).count()
    of_service: dict[str, Any] = {"url": url, "stream": target, "seal": True} if target else {}
    return append_to_table(
        counted.select("key", F.col("window.start").alias("start"), "count"),
        lake.table(TABLE),
        event_time="start",
        output_delay="5 seconds",
        note_every="1 second",
        checkpoint=checkpoint,
        job="rides",
        **of_service,
        **lake.how,
    )


def finish(query: StreamingQuery, streams: Streams, lake: Lake) -> None:
    """Wait until the table is final, as its notes or the service say."""
    if streams.target:
        asked: dict[str, Any] = {"url": streams.url, "stream": streams.target}
    else:
        asked = {"catalog": lake.catalog}

    def is_final() -> bool:
        return complete_until(lake.table(TABLE), **asked) == END_OF_TIME

    try:
        while query.isActive and not is_final():  # the test's own timeout ends it
            sleep(0.05)
        query.processAllAvailable()
    finally:
        query.stop()


if __name__ == "__main__":
    *_streams, _folder, _space, _checkpoint = sys.argv[1:]
    main(Streams(*_streams), Lake(format_of_jars(), Path(_folder), _space), _checkpoint)
