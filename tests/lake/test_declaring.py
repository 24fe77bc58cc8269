"""Who declares until when a table is complete, when, and what takes it back."""

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
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
from spark_source.sink.engines import make_table
from spark_source.sink.job import TableOptions
from tests.lake.jobs import TABLE, Job, checked, note_of, rows, times, until
from tests.lake.lakes import Lake
from tests.patience import wait_until
from tests.spark.feed import DAY, Feed
from tidegauge.event_time import END_OF_TIME
from tidegauge.tables import TwoJobsError, UnreadableTableError, note

_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"


def _versions(lake: Lake) -> int:
    return len(list(lake.log(TABLE).newest_first()))


def test_a_time_without_rows_is_withheld_by_a_query_that_runs_and_its_end_is_not(
    lake_spark: SparkSession, feed: Feed, delta: Lake, checkpoint: str
) -> None:
    def start(note_every: str) -> None:
        query = append_to_table(
            feed.load(lake_spark).select(
                "key", "event_time", "watermark", F.col("key").alias("of.feed")
            ),
            delta.table(TABLE),
            event_time="event_time",
            checkpoint=checkpoint,
            note_every=note_every,
            **delta.how,
        )
        try:
            wait_until(lambda: until(delta) == DAY + 2_000)
            feed.note(5_000)
            if note_every == "1 second":
                wait_until(lambda: until(delta) == DAY + 5_000)
            feed.seal()
            wait_until(lambda: until(delta) == END_OF_TIME)
            query.processAllAvailable()
        finally:
            query.stop()

    feed.write(1_000)
    feed.note(2_000)
    start("1 second")
    assert delta.read(lake_spark, TABLE).columns == ["key", "event_time", "of.feed"]
    assert times(delta) == [DAY + 1_000]


def test_a_withheld_time_waits_for_the_timer_or_the_next_batch_and_the_end_waits_for_nothing(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q", note_every_ms=3_600_000)
    job.batch(1_000, bound=2_000)
    before = _versions(lake)
    job.batch(bound=2_000)
    job.batch(bound=5_000)
    assert (_versions(lake), until(lake)) == (before, 2_000)
    job.batch(6_000, bound=7_000)
    assert (_versions(lake), until(lake)) == (before + 1, 7_000)
    job.batch(bound=END_OF_TIME)
    assert until(lake) == END_OF_TIME
    # Started again, it has batches without rows.
    Job(lake_spark, lake, tmp_path / "q").batch(bound=END_OF_TIME)
    assert _versions(lake) == before + 2
    assert times(lake) == [1_000, 6_000]


def test_late_rows_are_appended_and_counted(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=5_000)
    job.batch(2_000, 4_999, 5_000, bound=4_000)
    assert (until(lake), note_of(lake).late) == (5_000, 2)
    job.batch(bound=6_000)
    assert until(lake) == 6_000
    assert times(lake) == [1_000, 2_000, 4_999, 5_000]


def test_a_job_takes_over_once_and_rows_below_the_time_that_it_took_over_are_late(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    def job(name: str, **how: bool) -> Job:
        return Job(lake_spark, lake, tmp_path / name, job=name, **how)

    job("one").batch(1_000, bound=5_000)
    with pytest.raises(TableTakenError, match="job 'one' declares its time, and has come to"):
        job("two").batch(3_000, 8_000, bound=2_000)
    job("two", take_over=True).batch(3_000, 8_000, bound=2_000)
    assert (until(lake), note_of(lake).late, note_of(lake).job) == (5_000, 1, "two")
    job("two", take_over=True).batch(9_000, bound=9_000)
    with pytest.raises(TableTakenError, match="job 'two' declares its time"):
        job("one").batch(bound=10_000)
    back = job("one", take_over=True)
    back.batch(10_000, bound=10_000)
    back.batch(11_000, bound=11_000)
    # It took over before: what is left in a job must not do it again at each restart.
    with pytest.raises(TableTakenError, match="took over once already"):
        job("two", take_over=True).batch(bound=12_000)
    assert (until(lake), note_of(lake).job) == (11_000, "one")
    assert times(lake) == [1_000, 3_000, 8_000, 9_000, 10_000, 11_000]


def test_a_job_takes_over_where_two_have_declared_by_turns(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    Job(lake_spark, lake, tmp_path / "one", job="one").batch(1_000, bound=5_000)
    for until_then, name in ((6_000, "two"), (7_000, "one")):
        _append(lake, f"a-{name}", note(until_then, job=name, format=lake.format))
    with pytest.raises(TwoJobsError, match=r"let the other take over \(take_over=True\)"):
        Job(lake_spark, lake, tmp_path / "one", job="one").batch(8_000, bound=9_000)
    Job(lake_spark, lake, tmp_path / "two", job="two", take_over=True).batch(8_000, bound=9_000)
    assert (until(lake), note_of(lake).job) == (9_000, "two")
    assert times(lake) == [1_000, 6_000, 6_000, 8_000]


def test_a_new_checkpoint_of_a_job_takes_over_and_its_batches_are_others(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    def job(name: str, **how: bool) -> Job:
        return Job(lake_spark, lake, tmp_path / name, job="rides", **how)

    former = job("one")
    former.batch(1_000, bound=5_000)
    # A wrong path of a checkpoint appends nothing twice.
    with pytest.raises(TableTakenError, match="query 'one' of job 'rides' declares its time"):
        job("two").batch(2_000, bound=6_000)
    job("two", take_over=True).batch(2_000, bound=END_OF_TIME, again=True)
    assert (until(lake), note_of(lake).late) == (END_OF_TIME, 1)
    with pytest.raises(TableTakenError, match="its last note is final"):
        former.batch(6_000, bound=7_000)
    later = job("three", take_over=True)
    later.batch(6_000, bound=7_000)
    later.batch(8_000, bound=9_000)
    assert (until(lake), note_of(lake).late) == (END_OF_TIME, 1)
    assert times(lake) == [1_000, 2_000, 6_000, 8_000]


def test_what_others_append_keeps_the_notes_standing(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=5_000)
    _append(lake, "rust or python")
    rows(lake_spark, ("spark", 6_000)).writeTo(lake.sql(TABLE)).append()
    assert until(lake) == 5_000
    job.batch(7_000, bound=8_000)
    assert until(lake) == 8_000
    assert times(lake) == [1_000, 6_000, 6_000, 7_000]


def _append(lake: Lake, key: str, told: dict[str, str] | None = None) -> None:
    """Append a row without Spark, as delta-rs and pyiceberg do."""
    at = pa.array([6_000_000], pa.timestamp("us", "UTC"))
    found = pa.table({"key": [key], "event_time": at})
    if lake.format == "delta":
        properties = CommitProperties(custom_metadata=told)
        write_deltalake(lake.table(TABLE), found, mode="append", commit_properties=properties)
        return
    catalog = dict(lake.catalog or {})
    table = load_catalog(catalog.pop("name"), **catalog).load_table(lake.table(TABLE))
    table.append(found, snapshot_properties=told or {})


def test_writers_without_spark_commit_notes_and_a_query_of_the_same_job_goes_on(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q", job="rides")
    _append(lake, "a", note(5_000, job="rides", format=lake.format))
    assert until(lake) == 5_000
    job.batch(4_000, bound=6_000)
    assert note_of(lake).late == 1
    _append(lake, "b", note(6_000, job="rides", format=lake.format, final=True))
    assert until(lake) == END_OF_TIME
    assert times(lake) == [4_000, 6_000, 6_000]


def _overwrite(spark: SparkSession, lake: Lake) -> None:
    spark.sql(f"INSERT OVERWRITE {lake.sql(TABLE)} SELECT * FROM {lake.sql(TABLE)} LIMIT 0")


def _restore(spark: SparkSession, lake: Lake) -> None:
    """Go back to the first version, which has neither rows nor a note."""
    lake.go_back(spark, TABLE, 1)


@pytest.mark.parametrize("take_back", [_overwrite, _restore])
def test_what_takes_versions_back_ends_the_notes_until_a_job_takes_over(
    lake_spark: SparkSession,
    lake: Lake,
    tmp_path: Path,
    take_back: Callable[[SparkSession, Lake], None],
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=4_000)
    job.batch(4_000, bound=5_000)
    take_back(lake_spark, lake)
    assert until(lake) is None
    with pytest.raises(
        TableTakenError, match=r"notes were ended by .* pass take_over=True once"
    ):
        job.batch(3_000, bound=3_000)
    with pytest.raises(TableTakenError, match="notes were ended by"):
        Job(lake_spark, lake, tmp_path / "q").batch(3_000, bound=3_000, again=True)
    again = Job(lake_spark, lake, tmp_path / "q", take_over=True)
    again.batch(3_000, bound=3_000, again=True)
    assert (until(lake), note_of(lake).late) == (3_000, 0)


def test_a_table_that_was_made_again_needs_a_new_checkpoint(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=4_000)
    lake_spark.sql(f"DROP TABLE {lake.sql(TABLE)}")
    if lake.format == "delta":
        shutil.rmtree(lake.table(TABLE), ignore_errors=True)
    Job(lake_spark, lake, tmp_path / "other")
    with pytest.raises(ReplacedTableError, match="start the query with a new checkpoint"):
        job.batch(5_000, bound=6_000)
    with pytest.raises(ReplacedTableError):
        Job(lake_spark, lake, tmp_path / "q", take_over=True).batch(bound=6_000, again=True)
    Job(lake_spark, lake, tmp_path / "new").batch(2_000, bound=3_000)
    assert times(lake) == [2_000]


def test_metadata_of_a_users_own_is_kept_or_refused(
    lake_spark: SparkSession, delta: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, delta, tmp_path / "q")
    try:
        lake_spark.conf.set(_METADATA, "nightly load")
        with pytest.raises(InvalidOptionError, match="'nightly load' is no JSON object"):
            job.batch(1_000, bound=4_000)
        lake_spark.conf.set(_METADATA, '{"team": "rides"}')
        job.batch(1_000, bound=4_000, again=True)
    finally:
        lake_spark.conf.unset(_METADATA)
    newest = lake_spark.sql(f"DESCRIBE HISTORY {delta.sql(TABLE)} LIMIT 1").first()
    assert newest is not None
    told = json.loads(newest["userMetadata"])
    assert (told["team"], told["tidegauge"]["until"]) == ("rides", 4_000)


def _maintain(spark: SparkSession, lake: Lake) -> None:
    """Compact, as one does by hand, and keep no older commit."""
    table = lake.table(TABLE)
    if lake.format == "delta":
        moved = spark.read.format("delta").load(table).repartition(1)
        moved.write.format("delta").mode("overwrite").option("dataChange", "false").save(table)
        assert until(lake) == 5_000  # it changed no row
        DeltaTable(table).create_checkpoint()
        *older, _ = sorted((Path(table) / "_delta_log").glob("*.json"))
        for entry in older:
            entry.unlink()
        return
    rewrite = "options => map('rewrite-all', 'true')"
    expire = "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1"
    spark.sql(f"CALL lake.system.rewrite_data_files(table => '{table}', {rewrite})")
    spark.sql(f"CALL lake.system.expire_snapshots(table => '{table}', {expire})")


def test_time_goes_on_from_the_checkpoint_where_maintenance_kept_no_note(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q", job="rides")
    job.batch(1_000, bound=5_000)
    _maintain(lake_spark, lake)
    assert until(lake) is None
    new = Job(lake_spark, lake, tmp_path / "new", job="rides")
    with pytest.raises(TableTakenError, match="oldest commits are not kept, nor is any note"):
        new.batch(4_000, bound=4_500)
    Job(lake_spark, lake, tmp_path / "q", job="rides").batch(4_000, 6_000, bound=4_500)
    assert (until(lake), note_of(lake).late) == (5_000, 1)


def test_a_checkpoint_from_a_backup_that_is_older_than_the_table_is_refused(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=2_000)
    backup = shutil.copytree(tmp_path / "q", tmp_path / "backup" / "q")
    job.batch(3_000, bound=4_000)
    with pytest.raises(TableTakenError, match=r"has batch 1 .* plans batch 1 anew"):
        Job(lake_spark, lake, backup).batch(3_000, 5_000, bound=6_000)
    assert times(lake) == [1_000, 3_000]


def test_commits_that_would_go_to_no_branch_are_refused(
    lake_spark: SparkSession, iceberg: Lake, tmp_path: Path
) -> None:
    lake_spark.conf.set("spark.wap.id", "audit")
    try:
        with pytest.raises(InvalidOptionError, match="commits would not go to branch main"):
            _commit_by_hand(lake_spark, iceberg, tmp_path)
    finally:
        lake_spark.conf.unset("spark.wap.id")


def test_a_catalog_that_spark_does_not_know_is_refused(
    lake_spark: SparkSession, iceberg: Lake, tmp_path: Path
) -> None:
    catalog = {**(iceberg.catalog or {}), "name": "lakes"}
    with pytest.raises(InvalidOptionError, match="none named 'lakes'; set spark"):
        _commit_by_hand(lake_spark, iceberg, tmp_path, catalog=catalog)


def _commit_by_hand(spark: SparkSession, lake: Lake, folder: Path, **how: Any) -> None:
    named = {"table": lake.table(TABLE), "checkpoint": str(folder), **lake.how, **how}
    commit_options(rows(spark), 0, **named)


def test_a_batch_function_of_a_users_own_commits_each_batch_once_with_a_note(
    lake_spark: SparkSession, feed: Feed, lake: Lake, checkpoint: str
) -> None:
    rows(lake_spark).writeTo(lake.sql(TABLE)).using(lake.format).createOrReplace() if (
        lake.format == "iceberg"
    ) else rows(lake_spark).write.format("delta").save(lake.table(TABLE))
    done: list[int] = []

    def write(batch: DataFrame, number: int) -> None:
        for _ in range(2):  # as Spark does after a crash
            options = commit_options(
                batch, number, table=lake.table(TABLE), checkpoint=checkpoint, **lake.how
            )
            if options is None:
                batch.write.format("noop").mode("overwrite").save()
                done.append(number)
            elif lake.format == "delta":
                writer = batch.write.format("delta").mode("append").options(**options)
                writer.save(lake.table(TABLE))
            else:
                batch.writeTo(lake.sql(TABLE)).options(**options).append()

    feed.write(1_000)
    feed.note(2_000)
    feed.seal()
    frame = feed.load(lake_spark).select("key", "event_time")
    query = (
        frame.writeStream.foreachBatch(write).option("checkpointLocation", checkpoint).start()
    )
    try:
        wait_until(lambda: not query.isActive or until(lake) == END_OF_TIME)
        query.processAllAvailable()
    finally:
        query.stop()
    assert done
    assert times(lake) == [DAY + 1_000]


def test_what_would_make_a_guess_a_promise_is_refused(
    lake_spark: SparkSession, feed: Feed, lake: Lake, checkpoint: str
) -> None:
    def start(df: DataFrame, event_time: str = "event_time") -> None:
        append_to_table(
            df, lake.table(TABLE), event_time=event_time, checkpoint=checkpoint, **lake.how
        )

    rate = lake_spark.readStream.format("rate").load().select("timestamp")
    ours = feed.load(lake_spark).select("key", "event_time")
    with pytest.raises(GuessedWatermarkError, match="it reads a stream of"):
        start(rate, "timestamp")
    with pytest.raises(GuessedWatermarkError, match="it reads a stream of"):
        start(ours.select("event_time").union(rate))
    lake_spark.conf.set(_POLICY, "max")
    try:
        with pytest.raises(GuessedWatermarkError, match="it is the max of several"):
            start(ours)
    finally:
        lake_spark.conf.unset(_POLICY)
    with pytest.raises(InvalidOptionError, match="option 'event_time'"):
        start(ours, "evnt_time")
    with pytest.raises(InvalidOptionError, match="is of type boolean; cast it to timestamp"):
        start(ours, "key IS NULL")
    with pytest.raises(InvalidOptionError, match="timestamp_ntz; name its zone: event_time="):
        start(ours, "to_timestamp_ntz(key)")
    with pytest.raises(InvalidOptionError, match="date; name its zone: event_time="):
        start(ours, "date(event_time)")
    assert not Path(checkpoint).exists()
    by_key = ours.groupBy("key").agg(F.max("event_time").alias("event_time"))
    with pytest.raises(AnalysisException, match="without watermark"):
        start(by_key)
    with pytest.raises(UnreadableTableError):
        lake.log(TABLE)


def test_a_query_and_its_first_batch_make_one_table_at_once(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    options = TableOptions(table=lake.table(TABLE), checkpoint=str(tmp_path), **lake.how)

    def make(_: int) -> None:
        make_table(options.engine(), lake_spark, rows(lake_spark).schema)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(make, range(2)))
    assert _versions(lake) == 1


def test_a_note_below_the_one_before_it_is_found(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_source.sink.job.max", min, raising=False)
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(1_000, bound=5_000)
    job.batch(6_000, bound=4_000)
    with pytest.raises(AssertionError, match="time falls"):
        checked(lake)
