"""The work list of a table that Spark writes: its appends, compactions and deletes."""

from pathlib import Path

from pyspark.sql import SparkSession

from tests.lake.histories import BEGIN, HOUR, History
from tests.lake.jobs import TABLE, Job
from tests.lake.lakes import Lake
from tidegauge.intervals import Interval
from tidegauge.tables import intervals


def test_sparks_appends_are_counted_its_compaction_is_nothing_and_its_delete_names_hours(
    lake_spark: SparkSession, lake: Lake
) -> None:
    def look(
        since: str | None = None,
    ) -> tuple[int | None, list[Interval], list[Interval], str]:
        found = intervals(
            lake.table("hours"), since=since, event_time="at", catalog=lake.catalog
        )
        return found.until, found.new, found.again, found.cursor or ""

    def run(statement: str) -> None:
        lake.read(lake_spark, "hours")  # a session keeps an Iceberg table for half a minute
        lake_spark.sql(statement)

    history, name = History(lake, "hours"), lake.sql("hours")
    until = BEGIN + 3 * HOUR
    for hour in range(3):
        history.commit([BEGIN + hour * HOUR] * 2, until=BEGIN + (hour + 1) * HOUR)
    reached, new, _, first = look()
    assert (reached, [one.start for one in new]) == (until, [*range(BEGIN, until, HOUR)])
    run(f"INSERT INTO {name} VALUES (100, timestamp_millis({BEGIN + 1}))")
    _, new, again, second = look(first)
    assert (new, again) == ([], [Interval(BEGIN, BEGIN + HOUR, rows=1, late_by=3 * HOUR - 1)])
    history.compact(lake_spark)
    _, new, again, third = look(second)
    assert (new, again) == ([], [])
    run(f"DELETE FROM {name} WHERE id = 100")
    reached, new, again, _ = look(third)
    # Everything is one file by now, of which all rows but one are left: no notes end.
    assert (reached, new) == (until, [])
    assert BEGIN in [one.start for one in again if one.rewritten]


def test_a_query_notes_the_column_by_which_its_table_is_listed(
    lake_spark: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    job = Job(lake_spark, lake, tmp_path / "q")
    job.batch(BEGIN, bound=BEGIN + HOUR)
    job.sink.close()
    found = intervals(lake.table(TABLE), catalog=lake.catalog)
    assert [one.start for one in found.new] == [BEGIN]
