"""Queries over followed tables emit what a batch over the same versions does, and emit it again."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)
from pyspark.sql.streaming.query import StreamingQuery

import spark_source.frames.follow
from spark_source import append_to_table, count, follow, process, tumbling, windowed
from spark_source.errors import GuessedWatermarkError
from spark_source.following.tick_source import TickDataSource
from tests.effort import Effort
from tests.lake.histories import BEGIN, HOUR, History, Writers
from tests.lake.lakes import Lake
from tests.lake.seeded import FarTicks, LiveTicks
from tests.patience import wait_until
from tests.server import ServerProcess
from tests.service.api import Api
from tests.spark.draining import DRAINS
from tests.spark.processors import Visits
from tidegauge.tables import newest_note

_FROM_FIRST = {
    "delta": {"startingVersion": 0, "maxFilesPerTrigger": 1},
    "iceberg": {"streaming-max-files-per-micro-batch": 1},
}
_FAILS = "it fails"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def followed(
    spark: SparkSession, history: History, checkpoint: str, *, how: Any = None, **options: Any
) -> DataFrame:
    given = {"operators": "windows", "catalog": history.lake.catalog, **(how or {})}
    read = history.lake.stream(
        spark, history.name, **(options or _FROM_FIRST[history.lake.format])
    )
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

    def start(
        self, df: DataFrame, *, fails_at: int | None = None, **how: Any
    ) -> StreamingQuery:
        """Start the query, or start it again; it fails when it has put out a batch."""
        seen: dict[int, list[Any]] = {}
        self.runs.append(seen)

        def take(batch: DataFrame, number: int) -> None:
            seen[number] = [tuple(row) for row in batch.collect()]
            if number == fails_at:
                raise RuntimeError(_FAILS)

        writer = df.writeStream.foreachBatch(take).outputMode("append")
        if how:
            writer = writer.trigger(**how)
        return writer.option("checkpointLocation", self.checkpoint).start()

    @property
    def bounds(self) -> dict[int, int | None]:
        """The bound in the offset log, by batch; of several, the least."""
        found = {}
        for entry in (Path(self.checkpoint) / "offsets").glob("[0-9]*"):
            lines = entry.read_text().splitlines()[2:]
            bounds = [json.loads(line)["bound"] for line in lines if '"bound"' in line]
            found[int(entry.name)] = None if None in bounds else min(bounds)
        return found

    @property
    def bound(self) -> int | None:
        """The newest of these."""
        bounds = self.bounds
        return bounds[max(bounds)] if bounds else None

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
    spark: SparkSession, lake: Lake, folder: Path, seed: int, *sources: type[TickDataSource]
) -> tuple[History, list[Seen]]:
    """Run a query with each source of ticks, while a history goes on.

    It fails in its sink. When it repeats the batch, more commits are there.
    """
    history = History(lake, f"story{seed}")
    writers = Writers(history, spark, seed)
    writers.go_on("rows", "rows", *writers.shuffled("rows", "foreign", "compact", "late"))
    told, frames = list[Seen](), list[DataFrame]()
    for source in sources:
        told.append(Seen(str(folder / f"{source.__name__}{seed}")))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(spark_source.frames.follow, "TickDataSource", source)
            frames.append(_by_hour(followed(spark, history, told[-1].checkpoint)))
    runs = list(zip(told, frames, strict=True))
    for query in [seen.start(hours, fails_at=2) for seen, hours in runs]:
        with pytest.raises(StreamingQueryException, match=_FAILS):
            query.awaitTermination()
    writers.go_on(*writers.shuffled("rows", "foreign", "compact", "late"), "rows", "note")
    for seen, query in [(seen, seen.start(hours)) for seen, hours in runs]:
        seen.until_bound(query, history.until)
    return history, told


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
    sources: list[type[TickDataSource]] = [TickDataSource, FarTicks, LiveTicks]
    for seed in range(1, effort.times("histories of tables", short=1, long=25) + 1):
        history, told = tell(lake_spark, lake, tmp_path, seed, *sources)
        check(history, told[0])
        assert history.late
        for seen in told[1:]:
            with pytest.raises(AssertionError, match=r"windows are others|rows are lost"):
                check(history, seen)
        del sources[1:]


def test_each_start_of_a_delta_table_knows_what_it_has_read(
    lake_spark: SparkSession, delta: Lake, tmp_path: Path
) -> None:
    """Nothing is complete while the files of a first snapshot are read, which come in any order."""
    history = History(delta, "starts")
    writers = Writers(history, lake_spark, 3)
    writers.go_on("rows", "rows")
    of_third = len(history.on_time)
    writers.go_on("rows")
    of_latest = len(history.on_time)
    starts: dict[str, dict[str, Any]] = {
        "none": {},
        "2": {"startingVersion": 2},
        "latest": {"startingVersion": "latest"},
    }
    seen = {name: Seen(str(tmp_path / name)) for name in starts}
    queries = {}
    for name, start in starts.items():
        read = followed(
            lake_spark, history, seen[name].checkpoint, maxFilesPerTrigger=1, **start
        )
        queries[name] = seen[name].start(read.select("id", F.unix_millis("at")))
    wait_until(lambda: _runs(queries["latest"]) and bool(seen["latest"].bounds))
    writers.go_on("rows")
    for name, query in queries.items():
        seen[name].until_bound(query, history.until)
        _check_bounds(seen[name])
    ids = {name: sorted(number for number, _ in one.rows) for name, one in seen.items()}
    every = sorted(history.on_time)
    assert ids == {"none": every, "2": every[of_third:], "latest": every[of_latest:]}
    files = 3
    assert [seen["none"].bounds[number] for number in range(files)] == [None] * files
    assert seen["2"].bounds[0] is None


def _check_bounds(seen: Seen) -> None:
    """Assert that no row comes behind a bound that was told in a batch before."""
    (batches,) = seen.runs
    for number, bound in seen.bounds.items():
        later = [time for one, rows in batches.items() if one > number for _, time in rows]
        assert bound is None or all(time >= bound for time in later)


def test_a_table_that_was_made_again_fails_the_query_that_read_it(
    lake_spark: SparkSession, lake: Lake, checkpoint: str
) -> None:
    """The source of the format says so, or the ticks, whichever is asked first."""
    seen = Seen(checkpoint)
    secret = {"password": "hunter2"}

    def told() -> DataFrame:
        history = History(lake, "again")
        history.commit([BEGIN, BEGIN + 2 * HOUR], BEGIN + HOUR)
        how = (
            {"catalog": {**lake.catalog, **secret}}
            if lake.catalog
            else {"storage_options": secret}
        )
        return _by_hour(followed(lake_spark, history, checkpoint, how=how))

    hours = told()
    if DRAINS:
        query = seen.start(hours, availableNow=True)
        query.awaitTermination()
    else:
        seen.until_bound(seen.start(hours), BEGIN + HOUR)
    assert seen.rows == [(BEGIN, [0])]
    if lake.format == "delta":
        rmtree(lake.table("again"))
    else:
        lake_spark.sql(f"DROP TABLE {lake.sql('again')}")
    hours = told()
    refused = r"made again|re-created a table|expired or removed"
    with pytest.raises(StreamingQueryException, match=refused) as failed:
        seen.start(hours).awaitTermination()
    assert "hunter2" not in str(failed.value)
    assert "hunter2" not in hours._jdf.queryExecution().toString()


def test_after_a_restore_a_new_checkpoint_reads_the_table_as_it_is(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    """On Delta the old one can go on, and keeps what was taken back."""
    history, old, new = (
        History(lake, "back"),
        Seen(str(tmp_path / "old")),
        Seen(str(tmp_path / "new")),
    )

    def start(seen: Seen, **options: Any) -> StreamingQuery:
        read = followed(lake_spark, history, seen.checkpoint, **options)
        return seen.start(_by_hour(read))

    for hour in range(3):
        history.commit([BEGIN + hour * HOUR], BEGIN + (hour + 1) * HOUR)
    old.until_bound(start(old), history.until)
    lake.go_back(lake_spark, history.name, 2)
    history.commit([BEGIN + 3 * HOUR], BEGIN + 4 * HOUR)
    refused = r"DELTA_SOURCE_IGNORE_DELETE|Snapshot.parentId\(\)\" is null"
    with pytest.raises(StreamingQueryException, match=refused):
        start(old).awaitTermination()
    new.until_bound(start(new, maxFilesPerTrigger=9), history.until)
    assert sorted(new.rows) == [(BEGIN, [0]), (BEGIN + HOUR, [1]), (BEGIN + 3 * HOUR, [3])]
    if lake.format == "delta":
        old.until_bound(start(old, skipChangeCommits=True), history.until)
        assert sorted(old.rows) == [(BEGIN + hour * HOUR, [hour]) for hour in range(4)]


@dataclass
class Noted:
    """A table whose commits say nothing: its writer notes time to a stream."""

    history: History
    api: Api

    def commit(self, times: list[int], until: int) -> None:
        self.history.commit(times, until)
        self.api.note("writer", until, self.history.version() + 1)


@pytest.fixture
def noted(shared_server: ServerProcess, lake: Lake) -> Iterator[Noted]:
    with Api(shared_server.url, f"lake/{lake.format}-{lake.space}") as api:
        api.create(mark_resolution_ms=0)
        yield Noted(History(lake, "noted", notes=False), api)


def test_a_query_over_two_tables_promises_the_least_of_both(
    lake_spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    noted: Noted,
    shared_server: ServerProcess,
) -> None:
    """One table's marks are in its commits, the other's in the service; a third is not followed."""
    own, seen = History(lake, "own"), Seen(str(tmp_path / "checkpoint"))
    own.commit([BEGIN + 2 * HOUR], BEGIN + 2 * HOUR)
    noted.commit([BEGIN + HOUR], BEGIN + HOUR)
    at_service = {"url": shared_server.url, "stream": noted.api.name}
    one = followed(lake_spark, own, seen.checkpoint)
    other = followed(lake_spark, noted.history, seen.checkpoint, how=at_service)
    both = one.select("id", "event_time").unionByName(other.select("id", "event_time"))

    def start(df: DataFrame) -> StreamingQuery:
        return append_to_table(
            df,
            lake.table("both"),
            event_time="event_time",
            checkpoint=seen.checkpoint,
            note_every="0 ms",
            job="both",
            **lake.how,
        )

    third = lake.stream(lake_spark, "own").selectExpr("id", "at AS event_time")
    with pytest.raises(GuessedWatermarkError, match="it reads a stream of"):
        start(both.unionByName(third))

    def is_told(query: StreamingQuery, until: int) -> bool:
        found = newest_note(lake.table("both"), catalog=lake.catalog)
        return _runs(query) and found is not None and found.time == until

    query = start(both)
    try:
        wait_until(partial(is_told, query, BEGIN + HOUR))
        noted.commit([BEGIN + 3 * HOUR], BEGIN + 3 * HOUR)
        wait_until(partial(is_told, query, BEGIN + 2 * HOUR))
    finally:
        query.stop()
    rows = lake.read(lake_spark, "both").select(F.unix_millis("event_time")).collect()
    assert sorted(time for (time,) in rows) == [BEGIN + hours * HOUR for hours in (1, 2, 3)]


def test_operators_of_ours_hand_out_each_row_or_tell_that_it_is_late(
    lake_spark: SparkSession, lake: Lake, checkpoint: str
) -> None:
    """A processor over Delta, windows over Iceberg; the tables have neither segments nor offsets."""
    history, seen = History(lake, "rows"), Seen(checkpoint)
    writers = Writers(history, lake_spark, 7)
    writers.go_on("rows", "rows", "late", "rows")
    assert history.until is not None
    history.commit([], history.until + 4 * HOUR)
    place = {"segment": F.lit(0), "offset": F.lit(0)}
    shown = {"key": F.lit("k"), "number": F.col("id"), "shown": F.lit("")}
    rows = followed(lake_spark, history, checkpoint).withColumns(place | shown)
    lake_spark.conf.set(_PROVIDER, _ROCKSDB)
    try:
        query = seen.start(_handled(rows, lake))
        seen.until_bound(query, history.until)
    finally:
        lake_spark.conf.unset(_PROVIDER)
    late = {number for output, number in seen.rows if output == "late"}
    assert late
    assert late <= history.late.keys()
    assert sorted(number for _, number in seen.rows) == sorted(history.on_time | history.late)


def _handled(rows: DataFrame, lake: Lake) -> DataFrame:
    """Tell of each row whether it is late, and its number."""
    if lake.format == "delta":
        visits = process(rows, Visits(), columns=["number", "shown"], buckets=1)
        told = visits.frame.where("output <> 'silent'")
        return told.selectExpr("output", "coalesce(main.number, late.number)")
    aggregates = {"n": count()}
    hours = windowed(rows, tumbling("1 hour"), key="number", aggregates=aggregates, buckets=1)
    return hours.frame.selectExpr("output", "coalesce(result.number, late.number)")
