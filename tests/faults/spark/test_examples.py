"""Examples as users run them: a table that late page views correct, and devices that fall silent."""

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from examples.corrected_windows import catch_up, correct, expected_visits, stored_visits
from tests.quick_spark import quick_environment
from tests.server import ServerProcess
from tests.spark.feed import Feed

pytestmark = pytest.mark.soak  # what they use is tried elsewhere


def test_late_views_correct_the_table_once_even_if_a_batch_comes_again(
    spark: SparkSession, feed: Feed, tmp_path: Path
) -> None:
    feed.delete()  # The example creates its own.
    correct(spark, feed.url, feed.stream, tmp_path)
    assert stored_visits(tmp_path) == expected_visits()
    with closing(sqlite3.connect(tmp_path / "visits.db")) as database:
        too_late = database.execute("SELECT visitor, at FROM too_late").fetchall()
    assert too_late == [("bob", "2024-01-01 00:06")]
    shutil.rmtree(tmp_path / "checkpoint")
    catch_up(spark, feed.url, feed.stream, tmp_path)
    assert stored_visits(tmp_path) == expected_visits()


def test_silent_devices_are_those_that_plain_python_finds(shared_server: ServerProcess) -> None:
    command = [sys.executable, "-m", "examples.offline_devices", "--days", "1"]
    ended = subprocess.run(
        [*command, "--url", shared_server.url, "--stream", "example/telemetry"],
        stdout=subprocess.PIPE,
        env=os.environ | quick_environment(),
        text=True,
        check=True,
    )
    assert ended.stdout.endswith("changes, as plain Python finds them\n")
