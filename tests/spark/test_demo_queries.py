"""What the demo asks of its query."""

from pyspark.sql import SparkSession

from tests.spark.feed import Feed, Followed
from tidegauge_cli.demo.queries import events_read


def test_events_of_finished_batches_are_counted(
    spark: SparkSession, feed: Feed, checkpoint: str
) -> None:
    feed.write(1_000, 2_000)
    with Followed(feed.load(spark).select("offset"), checkpoint) as followed:
        followed.until(lambda: events_read(followed.query) == 2, "two events")
        feed.note(3_000)
        followed.until_read(3_000)
        assert events_read(followed.query) == 2
        feed.write(4_000)
        followed.until(lambda: events_read(followed.query) == 3, "the third event")
        assert len(followed.rows) == 3
