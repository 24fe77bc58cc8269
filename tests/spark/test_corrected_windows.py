"""The example whose table late page views correct."""

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.corrected_windows import catch_up, correct, expected_visits, stored_visits
from tests.spark.feed import Feed


@pytest.mark.soak  # `make test` corrects windows in test_windowed
def test_late_views_correct_the_table_once_even_if_a_batch_comes_again(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.delete()  # The example creates its own.
    correct(spark, feed.url, feed.stream, tmp_path)
    assert stored_visits(tmp_path) == expected_visits()
    assert _too_late(tmp_path) == [("bob", "2024-01-01 00:06")]
    shutil.rmtree(tmp_path / "checkpoint")
    catch_up(spark, feed.url, feed.stream, tmp_path)
    assert stored_visits(tmp_path) == expected_visits()


def _too_late(folder: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(folder / "visits.db")) as database:
        return database.execute("SELECT visitor, at FROM too_late").fetchall()
