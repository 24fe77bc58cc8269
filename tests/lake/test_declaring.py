"""Who declares until when a table is complete, when, and what takes it back."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (as everybody does)

from spark_source import append_to_table, commit_options
from spark_source.errors import (
    GuessedWatermarkError,
    InvalidOptionError,
    ReplacedTableError,
    TableTakenError,
)
from spark_source.sink.engines import Delta, Engine, Iceberg, make_table
from spark_source.sink.job import TableOptions
from tests.lake.jobs import TABLE, Job, checked, note_of, rows, times, until
from tests.lake.lakes import Lake
from tests.lake.laws import read
from tests.patience import wait_until
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import UnreadableTableError
from tidegauge.tables.iceberg import IcebergLog
from tidegauge.tables.notes import Note

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"


def _versions(lake: Lake) -> int:
    return len(list(lake.log(TABLE).newest_first()))


def test_a_withheld_time_waits_for_rows_or_the_timer_and_the_end_for_nothing(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    def job(note_every_ms: int) -> Job:
        return Job(lake_spark, lake, tmp_path / "q", note_every_ms=note_every_ms)

    seconds = job(1_000)
    seconds.batch(1_000, bound=1_000)
    seconds.batch(bound=2_000)
    wait_until(lambda: until(lake) == 2_000)
    hours = job(3_600_000)
    hours.batch(2_000, bound=2_000)
    before = _versions(lake)
    hours.batch(bound=5_000)
    assert (_versions(lake), until(lake)) == (before, 2_000)
    hours.batch(1_999, 2_001, bound=7_000)
    assert (_versions(lake), until(lake), note_of(lake).late) == (before + 1, 7_000, 1)
    hours.batch(bound=END_OF_TIME)
    assert until(lake) == END_OF_TIME
    # Started again, it has batches without rows.
    job(0).batch(bound=END_OF_TIME)
    assert _versions(lake) == before + 2
    assert times(lake) == [1_000, 1_999, 2_000, 2_001]


def test_what_takes_versions_or_the_table_back_ends_the_notes_until_a_query_takes_over(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    one = Job(lake_spark, lake, tmp_path / "one")
    one.batch(1_000, bound=4_000)
    one.batch(4_000, bound=5_000)
    name = lake.sql(TABLE)
    lake_spark.sql(f"INSERT OVERWRITE {name} SELECT * FROM {name} LIMIT 0")
    assert until(lake) is None
    with pytest.raises(TableTakenError, match=r"ended by .* pass take_over=True once"):
        one.batch(3_000, bound=3_000)
    Job(lake_spark, lake, tmp_path / "two", take_over=True).batch(3_000, bound=3_000)
    assert (until(lake), note_of(lake).late) == (3_000, 0)
    lake.go_back(lake_spark, TABLE, 1)
    assert until(lake) is None
    again = Job(lake_spark, lake, tmp_path / "two", take_over=True)
    again.batch(2_000, bound=2_000)
    assert (until(lake), note_of(lake).late) == (2_000, 0)
    # A table that is made again needs a new checkpoint.
    lake.drop(lake_spark, TABLE)
    new = Job(lake_spark, lake, tmp_path / "new")
    with pytest.raises(ReplacedTableError, match="start the query with a new checkpoint"):
        again.batch(5_000, bound=6_000)
    with pytest.raises(ReplacedTableError):
        Job(lake_spark, lake, tmp_path / "two", take_over=True).batch(bound=6_000)
    new.batch(1_000, bound=3_000)
    assert times(lake) == [1_000]


def test_metadata_of_a_users_own_is_kept(
    lake_spark: SparkSession, delta: Lake, tmp_path: Path
) -> None:
    lake_spark.conf.set(_METADATA, '{"team": "rides"}')
    try:
        Job(lake_spark, delta, tmp_path / "q").batch(1_000, bound=4_000)
    finally:
        lake_spark.conf.unset(_METADATA)
    newest = lake_spark.sql(f"DESCRIBE HISTORY {delta.sql(TABLE)} LIMIT 1").first()
    assert newest is not None
    told = json.loads(newest["userMetadata"])
    assert (told["team"], told["tidegauge"]["until"]) == ("rides", 4_000)


def test_a_batch_function_of_a_users_own_commits_each_batch_once_with_a_note(
    lake_spark: SparkSession, feed: Feed, lake: Lake, checkpoint: str
) -> None:
    engines = {name: _created(lake_spark, lake, name) for name in (TABLE, "second")}
    done: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        for name in [*engines, *engines]:  # again, as Spark does after a crash
            options = commit_options(
                batch, number, table=lake.table(name), checkpoint=checkpoint, **lake.how
            )
            if options is None:
                batch.write.format("noop").mode("overwrite").save()
                done.append(number)
            else:
                engines[name].append(batch, options)

    feed.write(1_000)
    feed.note(2_000)
    feed.seal()
    writer = feed.load(lake_spark).select("key", "event_time").writeStream.foreachBatch(write)
    query = writer.option("checkpointLocation", checkpoint).start()
    try:
        wait_until(lambda: not query.isActive or until(lake) == END_OF_TIME)
        query.processAllAvailable()
    finally:
        query.stop()
    assert done
    assert times(lake) == [DAY + 1_000]
    second = read(lake, "second", "key", "event_time")
    assert [time for one in second for _, time in one.rows] == [DAY + 1_000]
    assert second[-1].until == END_OF_TIME


def _created(spark: SparkSession, lake: Lake, name: str) -> Engine:
    """Make a table, by two threads at once: a query does so at its start and in its first batch."""
    engine = TableOptions(table=lake.table(name), checkpoint="/none", **lake.how).engine()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda _: make_table(engine, spark, rows(spark).schema), range(2)))
    assert len(list(lake.log(name).newest_first())) == 1
    return engine


def test_what_would_make_a_guess_a_promise_is_refused_and_leaves_no_table(
    lake_spark: SparkSession, feed: Feed, lake: Lake, checkpoint: str
) -> None:
    def start(df: DataFrame, event_time: str = "event_time", **how: Any) -> None:
        how = {"event_time": event_time, "checkpoint": checkpoint, **lake.how, **how}
        append_to_table(df, lake.table(TABLE), **how)

    ours = feed.load(lake_spark).select("key", "event_time")
    with pytest.raises(GuessedWatermarkError, match="it reads a stream of"):
        start(lake_spark.readStream.format("rate").load(), "timestamp")
    with pytest.raises(InvalidOptionError, match="option 'event_time'"):
        start(ours, "evnt_time")
    with pytest.raises(InvalidOptionError, match="is of type boolean; cast it to timestamp"):
        start(ours, "key IS NULL")
    if lake.catalog:
        with pytest.raises(InvalidOptionError, match="none named 'lakes'; set spark"):
            start(ours, catalog={**lake.catalog, "name": "lakes"})
    assert not Path(checkpoint).exists()
    with pytest.raises(AnalysisException, match="without watermark"):
        start(ours.groupBy("key").agg(F.max("event_time").alias("event_time")))
    with pytest.raises(UnreadableTableError):
        lake.log(TABLE)


def _falls(patch: pytest.MonkeyPatch, _: type[Engine]) -> None:
    patch.setattr("spark_source.sink.job.max", min, raising=False)


def _promises_more(patch: pytest.MonkeyPatch, engine: type[Engine]) -> None:
    make = engine.options

    def options(self: Engine, spark: SparkSession, note: Note) -> dict[str, str]:
        said = {"until": (note.until or 0) + 3_000, "late": 0}
        return make(self, spark, note.model_copy(update=said))

    patch.setattr(engine, "options", options)


def _forgets_batches(patch: pytest.MonkeyPatch, engine: type[Engine]) -> None:
    make = engine.options

    def options(self: Engine, spark: SparkSession, note: Note) -> dict[str, str]:
        made = make(self, spark, note)
        return {name: value for name, value in made.items() if not name.startswith("txn")}

    patch.setattr(engine, "options", options)
    patch.setattr(IcebergLog, "committed", lambda *_: None)


@pytest.mark.parametrize(
    ("bug", "broken"),
    [
        (_falls, "time falls"),
        (_promises_more, "rows are behind a note"),
        (_forgets_batches, "rows are in two versions"),
    ],
)
def test_a_query_that_breaks_a_law_is_found(
    lake_spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    bug: Callable[[pytest.MonkeyPatch, type[Engine]], None],
    broken: str,
) -> None:
    bug(monkeypatch, Delta if lake.format == "delta" else Iceberg)
    Job(lake_spark, lake, tmp_path / "q").batch(1_000, bound=5_000)
    again = Job(lake_spark, lake, tmp_path / "q")
    again.batch(1_000, bound=5_000, again=True)
    again.batch(6_000, bound=4_000)
    with pytest.raises(AssertionError, match=broken):
        checked(lake)
