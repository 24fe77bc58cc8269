"""What a new user reads first does what it says, block by block, from an empty service on."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.linked import ROOT
from tests.server import ServerProcess
from tests.spark.pages import TUTORIALS, Reader


@pytest.fixture
def one_session(spark: SparkSession) -> Iterator[SparkSession]:
    """The session that the pages get, too, and set to their needs."""
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    yield spark
    for query in spark.streams.active:
        query.stop()
    assert partitions is not None
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


@pytest.mark.every_spark
def test_the_readme_ends_with_exact_windows(
    shared_server: ServerProcess, one_session: SparkSession
) -> None:
    text = (ROOT / "README.md").read_text()
    reader = Reader(shared_server.url, one_session, "readme")
    reader.follow(text[text.index("## Your first watermark") :])
    assert reader.printed() == [9]
    assert len(text.splitlines()) <= 140


def test_the_tutorials_close_a_window_and_show_a_late_row(
    shared_server: ServerProcess, one_session: SparkSession
) -> None:
    reader = Reader(shared_server.url, one_session, "tutorial")
    reader.follow((TUTORIALS / "first-watermark.md").read_text())
    reader.follow((TUTORIALS / "exact-window.md").read_text())
    # The window that the note closes is the tenth; the event of a broken promise is in none.
    assert reader.printed() == [10, 10, 1]
