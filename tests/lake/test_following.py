"""Queries over followed tables emit what a batch over the same versions does, and emit it again."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

import spark_source.frames.follow
from spark_source import append_to_table, follow
from spark_source.errors import GuessedWatermarkError
from spark_source.following.tick_source import TickDataSource
from tests.effort import Effort
from tests.lake.histories import BEGIN, HOUR, History, Writers
from tests.lake.lakes import Lake
from tests.lake.seeded import FarTicks, LiveTicks
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import Api
from tidegauge.tables import newest_note

Start = tuple[type[TickDataSource], dict[str, Any]]
"""A source of ticks, and options of the source of the table."""
_FAILS = "it fails"


def followed(
    spark: SparkSession, history: History, checkpoint: str, *, how: Any = None, **options: Any
) -> DataFrame:
    given = {"operators": "windows", "catalog": history.lake.catalog, **(how or {})}
    read = history.lake.stream(spark, history.name, **options)
    return follow(read, table=history.table, event_time="at", checkpoint=checkpoint, **given)


@dataclass
class Seen:
    """What a query put out, and how far it was.

    Attributes
    ----------
    runs
        Of each run, the rows by the number of their batch.
    """

    checkpoint: str
    runs: list[dict[int, list[Any]]] = field(default_factory=list)

    def start(self, df: DataFrame, *, fails_at: int | None = None) -> StreamingQuery:
        """Start the query, or start it again; it fails when it has put out a batch."""
        seen: dict[int, list[Any]] = {}
        self.runs.append(seen)

        def take(batch: DataFrame, number: int) -> None:
            seen[number] = [tuple(row) for row in batch.collect()]
            if number == fails_at:
                raise RuntimeError(_FAILS)

        writer = df.writeStream.foreachBatch(take).outputMode("append")
        return writer.option("checkpointLocation", self.checkpoint).start()

    @property
    def bound(self) -> int | None:
        """The bound in the newest entry of the offset log; of several, the least."""
        entries = (Path(self.checkpoint) / "offsets").glob("[0-9]*")
        newest = max(entries, key=lambda entry: int(entry.name), default=None)
        lines = [] if newest is None else newest.read_text().splitlines()[2:]
        bounds = [json.loads(line)["bound"] for line in lines if '"bound"' in line]
        return None if None in bounds else min(bounds, default=None)

    def until_bound(self, query: StreamingQuery, bound: int | None) -> None:
        """Wait until a query is at a bound and has put out what that allows; then stop it."""
        try:
            wait_until(lambda: _runs(query) and self.bound == bound)
            query.processAllAvailable()
        finally:
            query.stop()

    @property
    def rows(self) -> list[Any]:
        """All that came out, of batches that were repeated once."""
        batches: dict[int, list[Any]] = {}
        for run in self.runs:
            batches |= run
        return [row for number in sorted(batches) for row in batches[number]]


def _runs(query: StreamingQuery) -> bool:
    error = query.exception()
    if error is not None:
        raise error
    return True


def _by_hour(df: DataFrame) -> DataFrame:
    hours = df.groupBy(F.window("event_time", "1 hour")).agg(F.collect_list("id"))
    return hours.select(F.unix_millis("window.start"), "collect_list(id)")


def tell(
    spark: SparkSession, lake: Lake, folder: Path, seed: int, *starts: Start
) -> tuple[History, list[Seen]]:
    """Run a query for each start, while a history goes on.

    It fails in its sink. When it repeats the batch, more commits are there.
    """
    history = History(lake, f"story{seed}")
    writers = Writers(history, spark, seed)
    writers.go_on("rows", "rows", *writers.shuffled("rows", "foreign", "compact", "late"))
    runs = list[tuple[Seen, DataFrame]]()
    for number, (source, options) in enumerate(starts):
        seen = Seen(str(folder / f"{seed}-{number}"))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_source.frames.follow, "TickDataSource", source)
            rows = followed(spark, history, seen.checkpoint, **options)
        runs.append((seen, _by_hour(rows)))
    for query in [seen.start(hours, fails_at=2) for seen, hours in runs]:
        with pytest.raises(StreamingQueryException, match=_FAILS):
            query.awaitTermination()
    writers.go_on(*writers.shuffled("rows", "foreign", "compact", "late"), "rows", "note")
    for seen, query in [(seen, seen.start(hours)) for seen, hours in runs]:
        seen.until_bound(query, history.until)
    return history, [seen for seen, _ in runs]


def check(history: History, seen: Seen) -> None:
    """Assert that batches are as those of the table's versions, and that a repeated one is as it was."""
    first, *later = seen.runs
    for run in later:
        for number in first.keys() & run.keys():
            assert run[number] == first[number], "a repeated batch differs"
    emitted = dict[int, set[int]]()
    for start, ids in seen.rows:
        assert start not in emitted, "a window is emitted twice"
        emitted[start] = set(ids)
    bound = seen.bound
    assert bound is not None
    on_time = history.windows(bound)
    rows = history.windows(bound, of=history.on_time | history.late)
    assert on_time.keys() <= emitted.keys() <= rows.keys(), "windows are others"
    for start, ids in emitted.items():
        assert on_time.get(start, set()) <= ids, "rows are lost"
        assert ids <= rows[start], "rows are in a window that is not theirs"


def test_a_query_emits_what_a_batch_over_the_same_versions_does_also_where_it_is_repeated(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path, effort: Effort
) -> None:
    """And with ticks that tell more than was planned, it does not."""
    right: list[Start] = [(TickDataSource, {})]
    if lake.format == "delta":
        # Nothing is complete while the files of a first snapshot are read, in any order.
        right.append((TickDataSource, {"maxFilesPerTrigger": 1}))
    history, told = tell(lake_spark, lake, tmp_path, 1, *right, (FarTicks, {}), (LiveTicks, {}))
    assert history.late
    for seen in told[:-2]:
        check(history, seen)
    for seen in told[-2:]:
        with pytest.raises(AssertionError, match=r"windows are others|rows are lost"):
            check(history, seen)
    for seed in range(2, effort.times("histories of tables", short=1, long=25) + 1):
        history, (seen,) = tell(lake_spark, lake, tmp_path, seed, right[0])
        check(history, seen)


def test_what_is_taken_back_or_made_again_fails_a_query_and_no_secret_is_shown(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """A new checkpoint reads the table as it is; on Delta the old one can keep what it had."""
    history = History(lake, "back")
    old, new = (Seen(str(tmp_path / name)) for name in ("old", "new"))
    secret = {"password": "hunter2"}
    how: dict[str, Any] = {"storage_options": secret}
    if lake.catalog:
        how = {"catalog": {**lake.catalog, **secret}}

    def start(seen: Seen, **options: Any) -> StreamingQuery:
        hours = _by_hour(followed(lake_spark, history, seen.checkpoint, how=how, **options))
        assert "hunter2" not in hours._jdf.queryExecution().toString()
        return seen.start(hours)

    def fails(seen: Seen, refused: str) -> None:
        with pytest.raises(StreamingQueryException, match=refused) as failed:
            start(seen).awaitTermination()
        assert "hunter2" not in str(failed.value)

    for hour in range(3):
        history.commit([BEGIN + hour * HOUR], BEGIN + (hour + 1) * HOUR)
    old.until_bound(start(old), history.until)
    lake.go_back(lake_spark, history.name, 2)
    history.commit([BEGIN + 3 * HOUR], BEGIN + 4 * HOUR)
    fails(old, r"DELTA_SOURCE_IGNORE_DELETE|Snapshot.parentId\(\)\" is null")
    new.until_bound(start(new, maxFilesPerTrigger=9), history.until)
    assert sorted(new.rows) == [(BEGIN, [0]), (BEGIN + HOUR, [1]), (BEGIN + 3 * HOUR, [3])]
    if lake.format == "delta":
        old.until_bound(start(old, skipChangeCommits=True), history.until)
        assert sorted(old.rows) == [(BEGIN + hour * HOUR, [hour]) for hour in range(4)]
    lake.drop(lake_spark, history.name)
    history.commit([BEGIN], BEGIN + HOUR)
    # The source of the format says so, or the ticks, whichever is asked first.
    fails(new, r"made again|re-created a table|expired or removed")


def test_a_query_over_two_tables_promises_the_least_of_both(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path, shared_server: ServerProcess
) -> None:
    """One table's marks are in its commits, the other's in the service; a third is not followed."""
    own, other = History(lake, "own"), History(lake, "other", notes=False)
    stream, seen = f"lake/{lake.format}-{lake.space}", Seen(str(tmp_path / "checkpoint"))

    def commit(history: History, hours: int) -> None:
        history.commit([BEGIN + hours * HOUR], BEGIN + hours * HOUR)
        if not history.notes:
            with Api(shared_server.url, stream) as api:
                api.note("writer", BEGIN + hours * HOUR, history.version() + 1)

    with Api(shared_server.url, stream) as api:
        api.create(mark_resolution_ms=0)
    commit(own, 2)
    commit(other, 1)
    frames = [
        followed(lake_spark, own, seen.checkpoint),
        followed(
            lake_spark,
            other,
            seen.checkpoint,
            how={"url": shared_server.url, "stream": stream},
        ),
    ]
    one, two = (frame.select("id", "event_time") for frame in frames)

    def start(df: DataFrame) -> StreamingQuery:
        return append_to_table(
            df,
            lake.table("both"),
            event_time="event_time",
            checkpoint=seen.checkpoint,
            note_every="0 ms",
            **lake.how,
        )

    third = lake.stream(lake_spark, "own").selectExpr("id", "at AS event_time")
    with pytest.raises(GuessedWatermarkError, match="it reads a stream of"):
        start(one.unionByName(two).unionByName(third))
    query = start(one.unionByName(two))

    def is_told(hours: int) -> bool:
        found = newest_note(lake.table("both"), catalog=lake.catalog)
        return _runs(query) and found is not None and found.time == BEGIN + hours * HOUR

    try:
        wait_until(lambda: is_told(1))
        commit(other, 3)
        wait_until(lambda: is_told(2))
    finally:
        query.stop()
    rows = lake.read(lake_spark, "both").select(F.unix_millis("event_time")).collect()
    assert sorted(time for (time,) in rows) == [BEGIN + hours * HOUR for hours in (1, 2, 3)]
