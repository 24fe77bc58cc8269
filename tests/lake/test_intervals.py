"""The work list of a table that Spark writes: its appends, compactions and deletes."""

from pyspark.sql import SparkSession

from tests.lake.histories import BEGIN, HOUR, History
from tests.lake.lakes import Lake
from tidegauge.intervals import Interval
from tidegauge.tables import WorkList, intervals


def test_sparks_appends_are_counted_its_compaction_is_nothing_and_its_delete_names_hours(
    lake_spark: SparkSession, lake: Lake
) -> None:
    def look(since: str | None = None) -> WorkList:
        catalog = lake.catalog
        return intervals(lake.table("hours"), since=since, event_time="at", catalog=catalog)

    history, name = History(lake, "hours"), lake.sql("hours")
    until = BEGIN + 3 * HOUR
    for hour in range(3):
        history.commit([BEGIN + hour * HOUR] * 2, until=BEGIN + (hour + 1) * HOUR)
    first = look()
    hours = [one.start for one in first.new]
    assert (first.until, hours) == (until, [*range(BEGIN, until, HOUR)])
    lake.read(lake_spark, "hours")  # a session keeps an Iceberg table for half a minute
    lake_spark.sql(f"INSERT INTO {name} VALUES (100, timestamp_millis({BEGIN + 1}))")
    late = look(first.cursor)
    of_late = Interval(BEGIN, BEGIN + HOUR, rows=1, late_by=3 * HOUR - 1)
    assert (late.new, late.again) == ([], [of_late])
    lake.compact(lake_spark, "hours")
    compacted = look(late.cursor)
    assert (compacted.new, compacted.again) == ([], [])
    lake_spark.sql(f"DELETE FROM {name} WHERE id = 100")
    deleted = look(compacted.cursor)
    # Everything is one file by now, of which all rows but one are left: no notes end.
    assert (deleted.until, deleted.new) == (until, [])
    assert BEGIN in [one.start for one in deleted.again if one.rewritten]
